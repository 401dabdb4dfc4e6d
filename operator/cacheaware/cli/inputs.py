"""Inputs that a command is given by name: a file, or `-` for standard input."""

import sys
from pathlib import Path

STDIN = "-"


def content_of(name: str, most: int) -> bytes:
    """The bytes of an input; `most` and one more of one that is larger.

    Raises:
        OSError: it can't be read.
        ValueError: no file has such a name.
    """
    if name == STDIN:
        return sys.stdin.buffer.read(most + 1)
    with Path(name).open("rb") as file:
        return file.read(most + 1)
