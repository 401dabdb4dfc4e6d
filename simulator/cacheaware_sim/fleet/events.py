"""What happens in a run, by time: a heap."""

import heapq
from collections.abc import Iterator
from enum import IntEnum
from typing import Any


class Kind(IntEnum):
    """Kinds of events, in the order in which they happen at one moment.

    Requests arrive after `FAULT`: a pod that is Ready now takes them, and so does one that dies.
    """

    WAKE = 0
    """An engine's iteration ends, or begins."""
    READY = 1
    KILL = 2
    """The grace period of a pod is over."""
    LEASE = 3
    """A cordon ends unless it was renewed."""
    RECOVER = 4
    """A slow node is fast again."""
    FAULT = 5
    SCRAPE = 6
    POLICY = 7


ARRIVALS_AFTER = Kind.FAULT
LAST = Kind.POLICY


class Events:
    """Events that are to come; those of one moment by kind, of one kind as they were pushed."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, Any]] = []
        self._pushed = 0

    def push(self, at: float, kind: Kind, what: Any = None) -> None:
        """Add an event."""
        self._pushed += 1
        heapq.heappush(self._heap, (at, kind, self._pushed, what))

    def until(self, at: float, last: Kind = LAST) -> Iterator[tuple[float, int, Any]]:
        """(when, kind, what) of all before `at`, and of those at it the kinds up to `last`.

        Events that are pushed meanwhile are among them.
        """
        heap, end = self._heap, (at, last + 1)
        while heap and heap[0] < end:
            when, kind, _, what = heapq.heappop(heap)
            yield when, kind, what
