"""Finds and reads the config.json files that a command is given."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cacheaware.cli.errors import BadInputError
from cacheaware.cli.inputs import STDIN, content_of
from cacheaware_sidecar.kv.errors import shown

_KINDS: Final = (
    (b"GGUF", "a GGUF file"),
    (b"PK\x03\x04", "a zip archive, such as PyTorch's checkpoints"),
    (b"\x80", "a pickle, such as PyTorch's old checkpoints"),
    (b"\x1f\x8b", "a gzip archive"),
)
_SAFETENSORS: Final = b'{"'
"""Behind the eight bytes that say how long the header is."""
_MOST_DIGITS: Final = 1000
_HUB_NAME: Final = re.compile(r"[\w.-]+/(?!.*\.json)[\w.-]+")
_NOT_FETCHED: Final = (
    "there is no such folder, and nothing is fetched from a hub: allowed are config.json files and"
    " their folders"
)
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
        else:
            try:
                found = _found(argument)
            except OSError as error:  # a name that is too long, a folder that must not be read
                found = [Document(argument, _unreadable(error))]
            yield from found


def _found(argument: str) -> list[Document]:
    """What one argument names; the system's own errors pass."""
    if argument != STDIN and Path(argument).is_dir():
        return list(_in_folder(Path(argument)))
    if _HUB_NAME.fullmatch(argument) and not Path(argument).exists():
        return [Document(argument, _NOT_FETCHED)]
    return [Document(argument)]


def _in_folder(folder: Path) -> Iterator[Document]:
    checkpoint = folder / "config.json"
    found = [checkpoint] if checkpoint.exists() else sorted(folder.glob("*.json"))
    if not found:
        yield Document(str(folder), "the folder holds no *.json: allowed are config.json files")
    yield from (Document(str(path)) for path in found)


def parsed(document: Document) -> Any:
    """The JSON of a document.

    Raises:
        BadInputError: It can't be read, is too large, is no JSON, or has a field twice.
    """
    if document.problem:
        raise BadInputError(document.problem)
    try:
        content = _content(document.name)
        if (kind := _other_kind(content)) is not None:
            raise BadInputError(f"is no JSON: {kind}; allowed is a model's config.json")
        return json.loads(
            content.decode("utf-8-sig"), object_pairs_hook=_once, parse_int=_whole_number
        )
    except OSError as error:
        raise BadInputError(_unreadable(error)) from error
    except RecursionError as error:
        raise BadInputError("is no config.json: nested too deeply") from error
    except ValueError as error:
        raise BadInputError(f"is no JSON: {error}") from error


def _unreadable(error: OSError) -> str:
    return f"can't be read: {error.strerror or error}"


def _other_kind(content: bytes) -> str | None:
    """What else lies beside a config.json and is given by mistake."""
    if not content.strip():
        return "an empty file"
    if content.startswith(_SAFETENSORS, 8):
        return "a safetensors file"
    return next((kind for magic, kind in _KINDS if content.startswith(magic)), None)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; which of two values is meant nobody can know."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found and found[name] != value:
            raise BadInputError(
                f"{printable(name)} is there twice, {shown(found[name])} and {shown(value)}:"
                " allowed is one value"
            )
        found[name] = value
    return found


def _whole_number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise BadInputError(f"is no JSON of a model: a number has {len(digits):,} digits")
    return int(digits)


def _content(name: str) -> bytes:
    content = content_of(name, LARGEST_FILE)
    if len(content) > LARGEST_FILE:
        raise BadInputError(f"is larger than {LARGEST_FILE:,} bytes: no config.json is")
    return content


def printable(text: str) -> str:
    """Text as one line of valid characters; others are escaped."""
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in text)
