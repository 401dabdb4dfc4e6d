"""Changes a YAML text where its data changed, and nowhere else.

The data before and after are compared; each difference becomes an edit of a few characters or
lines at the place of that value. Whatever has no difference keeps every byte.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from cacheaware.inject.yaml_nodes import Document, Kind, ManifestTextError, Node, documents_in
from cacheaware.inject.yaml_render import Layout, is_block, scalar

MERGE = "<<"


class EditError(ValueError):
    """A change has no place of its own in the text; one line."""


@dataclass(frozen=True, slots=True)
class Edit:
    """These characters are replaced by others."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """A value where it stands: behind a key or a dash of the collection around it."""

    node: Node
    around: Node | None = None
    behind: int = 0
    """Just behind the colon or the dash."""

    @property
    def flow(self) -> bool:
        """Whether it stands in braces or brackets."""
        return self.around is not None and self.around.flow


def rewritten(text: str, documents: Sequence[Document], after: Sequence[Any]) -> str:
    """The text with its documents' data changed.

    Raises:
        EditError: a change has no place of its own: an alias or a merge key ties values together.
    """
    edits: list[Edit] = []
    for document, data in zip(documents, after, strict=True):
        if not same(document.data, data):
            edits += Writer(text, document).edits(data)
    result = applied(text, edits)
    try:
        found = [one.data for one in documents_in(result)]
    except ManifestTextError as error:
        raise EditError(f"can't be changed in place: {error}") from error
    if not same(found, list(after)):
        raise EditError("can't be changed in place: its layout ties values together")
    return result


def applied(text: str, edits: list[Edit]) -> str:
    """The text after all edits.

    Raises:
        EditError: two of them touch the same characters.
    """
    parts, at = [], 0
    for edit in sorted(edits, key=lambda one: (one.start, one.end)):
        if edit.start < at:
            raise EditError("can't be changed in place: changes overlap")
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, text[at:]])


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to Kubernetes: true is not 1, and the order of keys is free.

    >>> same({"a": 1, "b": 2}, {"b": 2, "a": 1}), same({"a": 1}, {"a": True})
    (True, False)
    """
    return canonical(one) == canonical(other)


def canonical(value: Any) -> str:
    """A value as text that differs where values differ."""
    if isinstance(value, dict):
        pairs = sorted((repr(key), canonical(one)) for key, one in value.items())
        return f"{{{','.join(f'{key}:{one}' for key, one in pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(canonical, value))}]"
    return repr(value)


def layout_of(text: str, root: Node) -> Layout:
    """How a document is laid out."""
    newline = "\r\n" if "\r\n" in text else "\n"
    return Layout(dash=next(dashes(root), 2), newline=newline, json=root.flow)


def dashes(node: Node) -> Iterator[int]:
    """How far block sequences stand in from their keys, in the order of the text."""
    for _, value in node.pairs:
        if value.items and not value.flow and not node.flow:
            yield value.column - node.column
        yield from dashes(value)
    for item in node.items:
        yield from dashes(item)


class Writer:
    """The edits of one document."""

    def __init__(self, text: str, document: Document) -> None:
        if document.root is None:
            raise EditError("the document is empty")
        self.text = text
        self.document = document
        self.root = document.root
        self.layout = layout_of(text, document.root)

    def edits(self, data: Any) -> Iterator[Edit]:
        """All edits that make the document hold this data."""
        return self.changes(Place(self.root, behind=self.root.start), self.document.data, data)

    def changes(self, place: Place, old: Any, new: Any) -> Iterator[Edit]:
        """The edits that turn one value into another.

        Raises:
            EditError: the value is used elsewhere in the document, too.
        """
        node = place.node
        if same(old, new):
            return
        if node.anchor in self.document.aliased:
            raise EditError(
                f"the anchor &{node.anchor} stands for a value that has to change here and not"
                " where else it is used: write the value out"
            )
        both = (node.kind, type(old), type(new))
        if both == (Kind.MAPPING, dict, dict) and self.keeps_entry(node, new):
            yield from self.mapping(node, old, new)
        elif both == (Kind.SEQUENCE, list, list) and aligned(names(old), names(new))[0]:
            yield from self.sequence(node, old, new)
        else:
            yield self.replaced(place, new)

    @staticmethod
    def keeps_entry(node: Node, new: Any) -> bool:
        """Whether an entry of a mapping stays, beside which others can be put."""
        return any(key.value in {MERGE, *new} for key, _ in node.pairs)

    def mapping(self, node: Node, old: Any, new: Any) -> Iterator[Edit]:
        """The edits of a mapping's entries."""
        own = [key.value for key, _ in node.pairs]
        kept = [key for key in own if key in new or key == MERGE]
        merged = [key for key in old if key not in own and same(old[key], new.get(key))]
        added = grouped([key for key in new if key not in merged], kept)
        for at, (key, value) in enumerate(node.pairs):
            if key.value not in kept:
                yield self.without(node, at, kept[0])
                continue
            if key.value in new:
                place = Place(value, node, self.text.find(":", key.end) + 1)
                yield from self.changes(place, old.get(key.value), new[key.value])
            for name in added.get(key.value, ()):
                yield self.entry_after(node, value, name, new[name])

    def sequence(self, node: Node, old: list[Any], new: list[Any]) -> Iterator[Edit]:
        """The edits of a sequence's items."""
        pairs, added = aligned(names(old), names(new))
        if None in added:
            first = node.items[min(pairs)]
            yield from (self.item_before(node, first, new[at]) for at in added[None])
        for at, item in enumerate(node.items):
            if at not in pairs:
                yield self.without(node, at, min(pairs))
                continue
            yield from self.changes(Place(item, node, self.dash(item) + 1), old[at], new[pairs[at]])
            yield from (self.item_after(node, item, new[one]) for one in added.get(at, ()))

    def replaced(self, place: Place, new: Any) -> Edit:
        """A value put in place of another."""
        if place.flow or place.around is None:
            return Edit(place.node.start, place.node.end, self.flow_text(new, place.around))
        if new is None:
            return Edit(place.behind, place.node.end, "")
        braces = place.node.flow and bool(place.node.pairs or place.node.items)
        if braces or not is_block(new) or self.layout.json:
            return Edit(place.behind, place.node.end, f" {self.layout.inline(new)}")
        around = place.around
        if around.kind is Kind.SEQUENCE:
            text = " " + self.layout.block(new, around.column + 2)
        else:
            column = around.column + (self.layout.dash if isinstance(new, list) else 2)
            text = self.layout.break_at(column) + self.layout.block(new, column)
        return Edit(place.behind, place.node.end, text)

    def entry_after(self, node: Node, value: Node, key: str, new: Any) -> Edit:
        """An entry put behind a value of a mapping."""
        if node.flow:
            text = f"{self.separator(node)}{self.flow_key(key)}: {self.flow_text(new, node)}"
            return Edit(value.end, value.end, text)
        at = self.line_end(value.end)
        text = self.layout.break_at(node.column) + self.layout.entry(key, new, node.column)
        return Edit(at, at, text)

    def item_after(self, node: Node, item: Node, new: Any) -> Edit:
        """An item put behind another."""
        if node.flow:
            return Edit(item.end, item.end, self.separator(node) + self.flow_text(new, node))
        at = self.line_end(item.end)
        text = self.layout.break_at(node.column) + self.layout.item(new, node.column)
        return Edit(at, at, text)

    def item_before(self, node: Node, item: Node, new: Any) -> Edit:
        """An item put before another."""
        if node.flow:
            separator = self.separator(node)
            return Edit(item.start, item.start, self.flow_text(new, node) + separator)
        dash = self.dash(item)
        text = self.layout.item(new, node.column) + self.layout.break_at(node.column)
        return Edit(dash, dash, text)

    def without(self, node: Node, at: int, first_kept: Any) -> Edit:
        """An entry or item taken out, with its lines."""
        parts = [(key, value) for key, value in node.pairs] or [(one, one) for one in node.items]
        key, value = parts[at]
        start = key.start if node.pairs or node.flow else self.dash(value)
        kept = [one.value for one, _ in node.pairs].index(first_kept) if node.pairs else first_kept
        line = self.text.rfind("\n", 0, start)
        if not node.flow and not self.text[line + 1 : start].strip():
            return Edit(max(self.before_break(line), 0), self.line_end(value.end), "")
        if at < kept:
            following = parts[at + 1][0]
            until = following.start if node.pairs or node.flow else self.dash(following)
            return Edit(start, until, "")
        return Edit(parts[at - 1][1].end, value.end, "")

    def separator(self, node: Node) -> str:
        """What stands between the entries of a flow collection."""
        first = node.pairs[0][0] if node.pairs else node.items[0]
        if "\n" not in self.text[node.start : first.start]:
            return ", "
        return "," + self.layout.break_at(self.column(first.start))

    def flow_key(self, key: str) -> str:
        """A key in a flow collection."""
        return json.dumps(key) if self.layout.json else scalar(key)

    def flow_text(self, value: Any, around: Node | None) -> str:
        """A value in a flow collection: over several lines where its neighbours are."""
        if around is None or not self.layout.json or "\n" not in self.separator(around):
            return self.layout.inline(value)
        if not isinstance(value, dict | list):
            return self.layout.inline(value)
        first = around.pairs[0][0] if around.pairs else around.items[0]
        return self.layout.nested(value, self.column(first.start))

    def dash(self, item: Node) -> int:
        """Where the dash before an item of a block sequence stands."""
        return self.text.rfind("-", 0, max(item.start, 1))

    def column(self, at: int) -> int:
        """Characters before a place on its line."""
        return at - (self.text.rfind("\n", 0, at) + 1)

    def line_end(self, at: int) -> int:
        """The end of a line, before its line break.

        A block scalar that keeps its last line breaks (`|+`) ends where the next line begins: its
        own last line is meant.
        """
        found = at - 1 if self.text[at - 1 : at] == "\n" else self.text.find("\n", at)
        return len(self.text) if found < 0 else self.before_break(found)

    def before_break(self, newline: int) -> int:
        """Where a line break begins."""
        return newline - 1 if newline > 0 and self.text[newline - 1] == "\r" else newline


def grouped(new: list[str], kept: list[str]) -> dict[str, list[str]]:
    """New keys by the kept key that they follow; those before all come behind the first."""
    found: dict[str, list[str]] = {}
    anchor = kept[0]
    for key in new:
        if key in kept:
            anchor = key
        else:
            found.setdefault(anchor, []).append(key)
    return found


def names(items: list[Any]) -> list[str]:
    """What an item is known by while its content changes: its name, else all of it."""
    return [name_of(one) or canonical(one) for one in items]


def name_of(item: Any) -> str | None:
    """The name of a container or a volume, or of an object; a mount has none of its own."""
    if not isinstance(item, dict) or "mountPath" in item:
        return None
    meta = item.get("metadata")
    if isinstance(meta, dict) and "kind" in item:
        return f"{item['kind']} {meta.get('namespace')} {meta.get('name')}"
    return f"name {item['name']}" if isinstance(item.get("name"), str) else None


def aligned(
    old: list[str], new: list[str]
) -> tuple[dict[int, int], dict[int | None, list[int]]]:  # fmt: skip
    """Which old item is which new one, and the new ones by the kept item that they follow.

    As many items in place of others are taken for the same ones, changed.
    """
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    pairs = {
        here: there
        for kind, a, b, c, d in codes
        if kind == "equal" or b - a == d - c
        for here, there in zip(range(a, b), range(c, d), strict=True)
    }
    back = {there: here for here, there in pairs.items()}
    added: dict[int | None, list[int]] = {}
    anchor: int | None = None
    for at in range(len(new)):
        if at in back:
            anchor = back[at]
        else:
            added.setdefault(anchor, []).append(at)
    return pairs, added
