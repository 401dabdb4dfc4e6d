"""New values as YAML, in the layout of the text that they come into."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PLAIN = re.compile(
    r"-{0,2}[A-Za-z/_][A-Za-z0-9_./-]*(?:[:@=][A-Za-z0-9_./@-]+)*|[0-9]+(?:m|[KMG]i)"
)
"""Strings that need no quotes: none that a parser could take for something else."""
WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
"""What YAML 1.1, which Kubernetes' tools read, takes for a boolean or null."""
SHORT = 60
"""A list of plain words up to this length stands on one line."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a text is laid out."""

    dash: int = 2
    """How far a list's dashes stand in from their key."""
    newline: str = "\n"
    json: bool = False
    """The document is JSON."""

    def inline(self, value: Any) -> str:
        """A value on one line."""
        if self.json:
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict):
            inner = ", ".join(f"{scalar(key)}: {self.inline(one)}" for key, one in value.items())
            return f"{{{inner}}}"
        if isinstance(value, list):
            return f"[{', '.join(map(self.inline, value))}]"
        return scalar(value)

    def nested(self, value: Any, column: int) -> str:
        """A value in JSON over several lines, in a text that is laid out so."""
        return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", self.break_at(column))

    def entry(self, key: str, value: Any, column: int) -> str:
        """A mapping's entry as a block, without the indentation of its first line."""
        return self.break_at(column).join(self.entry_lines(key, value))

    def item(self, value: Any, column: int) -> str:
        """A sequence's item as a block, without the indentation of its first line."""
        return self.break_at(column).join(self.item_lines(value))

    def block(self, value: Any, column: int) -> str:
        """A collection as a block, without the indentation of its first line."""
        return self.break_at(column).join(self.lines(value))

    def break_at(self, column: int) -> str:
        """A new line, up to a column."""
        return self.newline + " " * column

    def lines(self, value: Any) -> Iterator[str]:
        """The lines of a collection's block."""
        if isinstance(value, dict):
            for key, one in value.items():
                yield from self.entry_lines(key, one)
        else:
            for one in value:
                yield from self.item_lines(one)

    def entry_lines(self, key: str, value: Any) -> Iterator[str]:
        """The lines of an entry."""
        if not is_block(value):
            yield f"{scalar(key)}:" if value is None else f"{scalar(key)}: {self.inline(value)}"
            return
        yield f"{scalar(key)}:"
        step = self.dash if isinstance(value, list) else 2
        yield from (" " * step + line for line in self.lines(value))

    def item_lines(self, value: Any) -> Iterator[str]:
        """The lines of an item."""
        if not is_block(value):
            yield f"- {self.inline(value)}"
            return
        for at, line in enumerate(self.lines(value)):
            yield f"{'  ' if at else '- '}{line}"


def is_block(value: Any) -> bool:
    """Whether a value takes several lines."""
    if isinstance(value, list):
        words = all(not isinstance(one, dict | list) for one in value)
        return bool(value) and not (words and sum(len(str(one)) + 2 for one in value) <= SHORT)
    return isinstance(value, dict) and bool(value)


def scalar(value: Any) -> str:
    """A scalar, quoted where a reader could take it for something else."""
    if not isinstance(value, str):
        return json.dumps(value)
    if PLAIN.fullmatch(value) and value.lower() not in WORDS:
        return value
    single = '"' in value and "'" not in value and value.isprintable()
    return f"'{value}'" if single else quoted(value)


def quoted(value: str) -> str:
    """A string in double quotes; what is not printable is escaped as YAML wants it."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(mark if mark.isprintable() else f"\\U{ord(mark):08x}" for mark in text)
