"""Stabilisation: growing takes the lowest recommendation of a window, shrinking the highest.

Only entries that can still become an extreme are kept (a sliding-window extreme), so that an hour
of rounds costs a few entries, and a window that is made longer finds its past.
"""

from typing import NamedTuple

LONGEST_SECONDS = 3600
"""The longest window that the schema allows."""


class Entry(NamedTuple):
    """A recommendation."""

    at: float
    replicas: int


def peaks_with(peaks: tuple[Entry, ...], new: Entry) -> tuple[Entry, ...]:
    """The peaks with a newer entry: what is not higher than it can't be the highest again."""
    return (*(e for e in peaks if e.replicas > new.replicas and in_memory(e, new.at)), new)


def lows_with(lows: tuple[Entry, ...], new: Entry) -> tuple[Entry, ...]:
    """The lows with a newer entry: what is not lower than it can't be the lowest again."""
    return (*(e for e in lows if e.replicas < new.replicas and in_memory(e, new.at)), new)


def in_memory(entry: Entry, now: float) -> bool:
    """Whether an entry lies within the longest window."""
    return entry.at >= now - LONGEST_SECONDS
