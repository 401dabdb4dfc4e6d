"""How soon a call that failed may be made again: longer each time, never before Retry-After."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from cacheaware.decide.pauses import doubled

HARMLESS = frozenset({404, 409, 410})
"""Answers, not failures: asking again at once is right."""
FIRST_SECONDS = 1.0
READ_CAP_SECONDS = 60.0
WRITE_CAP_SECONDS = 300.0
SHORT_CAP_SECONDS = 5.0
"""For the Lease, and for a server that was not reached: all else waits for these."""
FORGET_SECONDS = 900.0
EVERYTHING = "*"
"""The key of a server that was not reached: nothing is asked of it for a while."""


@dataclass(frozen=True, slots=True)
class Closed:
    """Why a call is not made now: the status it got, and the seconds left."""

    status: int
    seconds: float


@dataclass(slots=True)
class _Failures:
    count: int
    status: int
    until: float


@dataclass(slots=True)
class Gate:
    """Remembers what failed, by call; a call that passes is forgotten.

    Args:
        jitter: a number in 0..1; up to a quarter is added to each delay, so that many do not
            come back at the same moment.
    """

    jitter: Callable[[], float] = random.random
    _failures: dict[str, _Failures] = field(default_factory=dict)

    def closed(self, key: str, now: float) -> Closed | None:
        """Whether a call must wait."""
        for one in (EVERYTHING, key):
            failures = self._failures.get(one)
            if failures is not None and now < failures.until:
                return Closed(failures.status, failures.until - now)
        return None

    def passed(self, key: str) -> None:
        """A call was answered: the server is there, and this call works."""
        self._failures.pop(key, None)
        self._failures.pop(EVERYTHING, None)

    def failed(self, key: str, status: int, retry_after: float | None, now: float) -> None:
        """A call failed; status 0 means that the server was not reached."""
        if status in HARMLESS:
            return
        one = key if status else EVERYTHING
        before = self._failures.get(one)
        if before and now < before.until:
            return  # one of many that were under way together: the first has spoken for all
        count = before.count + 1 if before else 1
        wait = delay(count, cap_of(one), retry_after) * (1 + self.jitter() / 4)
        self._failures[one] = _Failures(count, status, now + wait)
        self._forget(now)

    def _forget(self, now: float) -> None:
        old = [key for key, one in self._failures.items() if now - one.until > FORGET_SECONDS]
        for key in old:
            del self._failures[key]


def cap_of(key: str) -> float:
    """The longest delay of a call, whatever Retry-After adds."""
    if key == EVERYTHING or "/leases" in key:
        return SHORT_CAP_SECONDS
    return READ_CAP_SECONDS if key.startswith("GET") else WRITE_CAP_SECONDS


def delay(count: int, cap: float, retry_after: float | None) -> float:
    """Seconds to wait after the n-th failure in a row: 1, 2, 4, ... up to the cap."""
    return max(doubled(FIRST_SECONDS, count, cap), retry_after or 0.0)
