"""Finds and reads the config.json files that a command is given."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacheaware.cli.errors import BadInputError
from cacheaware.cli.inputs import STDIN, content_of

LARGEST_FILE = 64 * 1024 * 1024
"""Bytes; the largest config.json seen has 3 MB."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file to read: its name as shown, or why there is none."""

    name: str
    problem: str | None = None

    @property
    def shown(self) -> str:
        """The name on one line."""
        return printable(self.name)


def documents(arguments: Iterable[str]) -> Iterator[Document]:
    """What the arguments name, in order.

    A folder stands for its config.json (a checkpoint), else for all *.json files in it.
    """
    given = list(arguments)
    for at, argument in enumerate(given):
        if argument == STDIN and STDIN in given[:at]:
            yield Document(STDIN, "standard input can be read once: name it once")
        elif not argument:
            yield Document("''", "the name is empty: allowed are files, folders and -")
        elif argument != STDIN and Path(argument).is_dir():
            yield from _in_folder(Path(argument))
        else:
            yield Document(argument)


def _in_folder(folder: Path) -> Iterator[Document]:
    checkpoint = folder / "config.json"
    found = [checkpoint] if checkpoint.exists() else sorted(folder.glob("*.json"))
    if not found:
        yield Document(str(folder), "the folder holds no *.json: allowed are config.json files")
    yield from (Document(str(path)) for path in found)


def parsed(document: Document) -> Any:
    """The JSON of a document.

    Raises:
        BadInputError: It can't be read, is too large, or is no JSON.
    """
    if document.problem:
        raise BadInputError(document.problem)
    try:
        return json.loads(_content(document.name).decode("utf-8-sig"))
    except OSError as error:
        raise BadInputError(f"can't be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise BadInputError("is no config.json: nested too deeply") from error
    except ValueError as error:
        raise BadInputError(f"is no JSON: {error}") from error


def _content(name: str) -> bytes:
    content = content_of(name, LARGEST_FILE)
    if len(content) > LARGEST_FILE:
        raise BadInputError(f"is larger than {LARGEST_FILE:,} bytes: no config.json is")
    return content


def printable(text: str) -> str:
    """Text as one line of valid characters; others are escaped."""
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in text)
