"""The text format of metrics pages: one pass that finds the wanted names, and what a line says.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text, version 0.0.4). A
last line without its line feed counts as long as it is whole; whether a body came whole is the
transport's business.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import lru_cache

Labels = Mapping[str, str]
Found = Mapping[bytes, list[bytes]]
"""Metric name -> what follows it on each of its lines, in the page's order."""

_LABEL = rb'\s*([a-zA-Z_]\w*)\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)"\s*'
_ONE_LABEL = re.compile(_LABEL + rb"(?:,|$)")
_WITH_EXEMPLAR = re.compile(rb"(\s*\{(?:" + _LABEL + rb",?)*\s*)?\}?([^#}]*)(?: # .*)?")
_ESCAPED = re.compile(rb"\\(.)")
_UNESCAPED = {b"n": b"\n", b'"': b'"', b"\\": b"\\"}
_LONGEST_KEPT = 1536


class Finder:
    """Finds the lines of many names in one pass: a regular expression made of their trie.

    Comments begin with `#` and so never match, and a name ends at a brace or a blank, so that
    `x` finds neither `x_total` nor `x_created`.
    """

    def __init__(self, wanted: Collection[bytes]) -> None:
        self._lines = re.compile(rb"\n[ \t]*(" + _trie(wanted) + rb")([{ \t].*)")

    def find(self, page: bytes) -> Found:
        """The lines of the wanted names."""
        found: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for name, rest in self._lines.findall(b"\n" + page):
            found[name].append(rest)
        return found


def _trie(words: Collection[bytes]) -> bytes:
    """An expression for these words, the longest first, their common beginnings shared."""
    tails: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for word in words:
        tails[word[:1]].append(word[1:])
    parts = [re.escape(head) + _trie(rest) if head else b"" for head, rest in tails.items()]
    return b"(?:" + b"|".join(sorted(parts, reverse=True)) + b")" if len(parts) > 1 else parts[0]


def read_series(rest: bytes) -> tuple[Labels, float] | None:
    """Labels and value of what follows a name; None where it is not well formed."""
    block, _, tail = rest.rpartition(b"}")
    labels = labels_of(block)
    value = number_of(tail)
    if labels is None or value is None:
        return _read_slowly(rest)
    return labels, value


def _read_slowly(rest: bytes) -> tuple[Labels, float] | None:
    """With a timestamp, or with an exemplar that has braces of its own (OpenMetrics)."""
    match = _WITH_EXEMPLAR.fullmatch(rest)
    if match is None:
        return None
    labels = labels_of(match[1] or b"")
    value, *more = match[match.re.groups].split() or [b""]
    number = number_of(value)
    if labels is None or number is None or any(number_of(each) is None for each in more):
        return None
    return (labels, number) if len(more) < 2 else None


def number_of(text: bytes) -> float | None:
    """A number as the format writes it, NaN and infinities included."""
    try:
        return float(text) if b"_" not in text else None  # float() takes 1_000
    except ValueError:
        return None


def labels_of(block: bytes) -> Labels | None:
    """The labels from the opening brace up to the closing one; None where not well formed.

    The same blocks come with every scrape, so they are kept.
    """
    return _kept_labels(block) if len(block) <= _LONGEST_KEPT else _parse_labels(block)


def _parse_labels(block: bytes) -> Labels | None:
    block = block.strip()
    if block[:1] not in {b"", b"{"}:
        return None
    labels: dict[str, str] = {}
    position = 1
    while match := _ONE_LABEL.match(block, position):
        labels[match[1].decode()] = _unescape(match[2])
        position = match.end()
    return labels if not block[position:].strip() else None


_kept_labels = lru_cache(maxsize=4096)(_parse_labels)


def _unescape(value: bytes) -> str:
    if b"\\" in value:
        value = _ESCAPED.sub(lambda match: _UNESCAPED.get(match[1], match[0]), value)
    return value.decode(errors="replace")


def bounds_of(blocks: list[bytes]) -> list[float]:
    """The upper bounds of a histogram's buckets, from their labels.

    Raises:
        ValueError: One has none, or its labels are not well formed.
    """
    longest = max(map(len, blocks), default=0)
    return list(map(_kept_bound if longest <= _LONGEST_KEPT else _parse_bound, blocks))


def _parse_bound(block: bytes) -> float:
    labels = labels_of(block) or {}
    bound = number_of(labels.get("le", "").encode())
    if bound is None or bound != bound:  # noqa: PLR0124 - NaN is no bound
        raise ValueError("no upper bound")
    return bound


_kept_bound = lru_cache(maxsize=4096)(_parse_bound)
