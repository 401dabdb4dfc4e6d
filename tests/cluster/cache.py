"""Where built things are kept between runs, and how they are named.

A name carries a hash of everything that went into the thing, so a changed source is a new file
and an old one is never taken for it.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/cacheaware`, made where it is missing."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "cacheaware"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fingerprint(files: Iterable[Path], *words: str) -> str:
    """Twelve hex digits of the names and contents of files, and of further words."""
    digest = hashlib.sha256()
    for file in sorted(files):
        content = file.read_bytes()
        digest.update(f"{file.name}\0{len(content)}\0".encode() + content)
    for word in words:
        digest.update(f"{word}\0".encode())
    return digest.hexdigest()[:12]
