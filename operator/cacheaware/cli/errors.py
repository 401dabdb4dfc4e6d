"""How a command refuses its input."""

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class BadInputError(Exception):
    """One clear line: the field, its value and what is allowed. Ends the command with code 2."""


def attempt(make: Callable[[], T]) -> T | None:
    """What comes of it; None, and a line that says why, for bad input."""
    try:
        return make()
    except BadInputError as error:
        print(f"cacheaware: {error}", file=sys.stderr)
        return None
