"""Files of limited size: written whole or not at all, never read without bound."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

LARGEST = 65536
"""Bytes, where the caller names no other bound."""


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Writes a file so that a reader sees the old text or the new one, never a part.

    Raises:
        OSError: the folder can't be written.
    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(fresh, flags, mode), "w", encoding="utf-8") as file:  # noqa: PTH123 - Path has no O_EXCL
            os.fchmod(file.fileno(), mode)
            file.write(text)
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise


def read_small(path: Path, largest: int = LARGEST) -> bytes:
    """The bytes of a file of limited size.

    Raises:
        OSError: it is missing, no file, or larger.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is no file")
        data = file.read(largest + 1)
    if len(data) > largest:
        raise OSError(f"{path} is larger than {largest} bytes")
    return data


def _without_waiting(path: str, flags: int) -> int:
    """Opens a pipe, too, at once: nobody may ever write to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_token(path: Path | None) -> str | None:
    """The token in a file; None where there is none or it can't go into a header."""
    if path is None:
        return None
    try:
        token = read_small(path).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    return token if token.isprintable() and token else None
