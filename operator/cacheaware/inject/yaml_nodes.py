"""Where each value of a YAML text stands: a tree of nodes with their places.

Parsers hand out data and forget the layout, or keep the layout as they would have written it. To
change a few places and leave every other byte alone, only the places are needed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from cacheaware.workload.no_yaml import why_no_yaml


class ManifestTextError(ValueError):
    """The text is no YAML; one line."""


class Kind(StrEnum):
    """What a node is."""

    SCALAR = "scalar"
    MAPPING = "mapping"
    SEQUENCE = "sequence"
    ALIAS = "alias"


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place, in characters of the text."""

    kind: Kind
    start: int
    end: int
    """Behind its last character; comments that follow are not part of it."""
    column: int = 0
    """Of a block mapping's keys or a block sequence's dashes."""
    flow: bool = False
    """Written in braces or brackets."""
    anchor: str | None = None
    value: str = ""
    pairs: tuple[tuple["Node", "Node"], ...] = ()
    items: tuple["Node", ...] = ()

    def entry(self, key: str) -> tuple["Node", "Node"] | None:
        """Key and value of a mapping's own entry; those of `<<` are not its own."""
        return next((pair for pair in self.pairs if pair[0].value == key), None)


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a text."""

    data: Any
    root: Node | None
    """None: the document is empty."""
    aliased: frozenset[str] = frozenset()
    """Anchors that are used again."""


@lru_cache(maxsize=2)
def documents_in(text: str) -> tuple[Document, ...]:
    """All documents of a text; kept for the next call, since reading takes seconds per megabyte.

    Nobody may change the data in place.

    Raises:
        ManifestTextError: it is no YAML.
    """
    try:
        data = list(YAML(typ="safe", pure=True).load_all(text))
        roots = list(Reader(text).roots())
    except (YAMLError, ValueError, RecursionError) as error:
        raise ManifestTextError(why_no_yaml(text, error)) from error
    return tuple(
        Document(each, root, aliased)
        for each, (root, aliased) in zip(data, roots, strict=True)
    )  # fmt: skip


class Reader:
    """Builds nodes out of a parser's events."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.events: Iterator[Any] = iter(YAML(typ="safe", pure=True).parse(text))
        self.aliased: set[str] = set()

    def roots(self) -> Iterator[tuple[Node | None, frozenset[str]]]:
        """The root of each document, and the anchors that are used again in it."""
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                self.aliased = set()
                root = self.node(next(self.events), 0)
                empty = root.kind is Kind.SCALAR and root.value == ""
                yield None if empty else root, frozenset(self.aliased)

    def node(self, event: Any, behind: int) -> Node:
        """The node that begins with an event; `behind` is where an empty one would stand."""
        if isinstance(event, AliasEvent):
            self.aliased.add(event.anchor)
            return Node(Kind.ALIAS, *span(event), value=event.anchor)
        if isinstance(event, ScalarEvent):
            return self.scalar(event, behind)
        if isinstance(event, MappingStartEvent):
            return self.mapping(event)
        return self.sequence(event)

    def scalar(self, event: Any, behind: int) -> Node:
        """A scalar; a block scalar ends with its text, not with the empty lines after it."""
        start, end = span(event)
        if end <= start and event.style is None:
            return Node(Kind.SCALAR, behind, behind, anchor=event.anchor)
        if event.style in {"|", ">"} and "+" not in self.text[start : start + 3]:
            end = max(start + 1, len(self.text[:end].rstrip()))
        return Node(Kind.SCALAR, start, end, anchor=event.anchor, value=event.value)

    def mapping(self, event: Any) -> Node:
        """A mapping with its entries."""
        start, pairs = event.start_mark.index, []
        while isinstance(first := next(self.events), NodeEvent):
            key = self.node(first, start)
            value = self.node(next(self.events), self.text.find(":", key.end) + 1)
            pairs.append((key, value))
        flow = bool(event.flow_style)
        last = first.end_mark.index if flow or not pairs else pairs[-1][1].end
        column = self.column_of(pairs[0][0].start) if pairs else 0
        return Node(Kind.MAPPING, start, last, column, flow, event.anchor, pairs=tuple(pairs))

    def sequence(self, event: Any) -> Node:
        """A sequence with its items."""
        start, items = event.start_mark.index, []
        while isinstance(first := next(self.events), NodeEvent):
            item = self.node(first, self.text.find("-", start) + 1)
            items.append(item)
        flow = bool(event.flow_style)
        last = first.end_mark.index if flow or not items else items[-1].end
        column = 0 if flow or not items else self.column_of(self.dash(items[0]))
        return Node(Kind.SEQUENCE, start, last, column, flow, event.anchor, items=tuple(items))

    def dash(self, item: Node) -> int:
        """Where the dash of a block sequence's item stands."""
        return self.text.rfind("-", 0, max(item.start, 1))

    def column_of(self, place: int) -> int:
        """Characters before a place on its line."""
        return place - (self.text.rfind("\n", 0, place) + 1)


def span(event: Any) -> tuple[int, int]:
    """Where an event begins and ends."""
    return event.start_mark.index, event.end_mark.index
