"""Stabilisation: growing takes the lowest recommendation of a window, shrinking the highest.

Only entries that can still become an extreme are kept (a sliding-window extreme), so that an hour
of rounds costs a few entries, and a window that is made longer finds its past.
"""

from collections.abc import Iterable

from msgspec import Struct

LONGEST_SECONDS = 3600
"""The longest window that the schema allows."""


class Entry(Struct, frozen=True):
    """A recommendation."""

    at: float
    replicas: int


def peaks_with(peaks: tuple[Entry, ...], new: Entry) -> tuple[Entry, ...]:
    """The peaks with a newer entry: what is not higher than it can't be the highest again."""
    return (*(e for e in within(peaks, LONGEST_SECONDS, new.at) if e.replicas > new.replicas), new)


def lows_with(lows: tuple[Entry, ...], new: Entry) -> tuple[Entry, ...]:
    """The lows with a newer entry: what is not lower than it can't be the lowest again."""
    return (*(e for e in within(lows, LONGEST_SECONDS, new.at) if e.replicas < new.replicas), new)


def within(entries: Iterable[Entry], seconds: float, now: float) -> Iterable[Entry]:
    """The entries of the last `seconds`; a window of 0 holds none."""
    return (entry for entry in entries if entry.at > now - seconds)


def stabilized(current: int, recommended: int, lows: Iterable[int], peaks: Iterable[int]) -> int:
    """The recommendation that the windows let through; the current replicas while they differ.

    Args:
        current: Replicas now.
        recommended: This round's recommendation.
        lows: Recommendations of the window for growing.
        peaks: Recommendations of the window for shrinking.
    """
    if (up := min([recommended, *lows])) > current:
        return up
    return min(current, max([recommended, *peaks]))
