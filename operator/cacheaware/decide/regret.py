"""Shrinks that were taken back soon: the window for shrinking is longer for a while after them.

A shrink is regretted when the fleet grows again within `SOON_S`: the cold start and the lost cache
cost more than the pods would have. A regret is remembered for half an hour, as long as changes are.
"""

from cacheaware.decide.memory import LONGEST_PERIOD_SECONDS, Change
from cacheaware.decide.windows import LONGEST_SECONDS

SOON_S = 600.0
SLIP_S = 15.0
"""What is taken back within this time was a cordon that failed: nothing was given up."""
MOST = 4
"""The window is never made longer than by this factor."""


def regrets(changes: tuple[Change, ...]) -> int:
    """How many of these changes, oldest first, took back a shrink that was made shortly before.

    >>> regrets((Change(0, 5, 4), Change(300, 4, 6), Change(900, 6, 5), Change(2000, 5, 6)))
    1
    """
    count = 0
    shrunk_at: float | None = None
    for one in changes:
        if one.after < one.before:
            shrunk_at = one.at
        elif shrunk_at is not None:
            count += SLIP_S < one.at - shrunk_at <= SOON_S
            shrunk_at = None
    return count


def window_s(seconds: int, changes: tuple[Change, ...], now: float) -> int:
    """The window for shrinking: twice as long after a regret, three times after two, and so on.

    >>> window_s(300, (), 400), window_s(300, (Change(0, 5, 4), Change(300, 4, 6)), 400)
    (300, 600)
    """
    lately = tuple(one for one in changes if one.at > now - LONGEST_PERIOD_SECONDS)
    return min(LONGEST_SECONDS, seconds * min(MOST, 1 + regrets(lately)))
