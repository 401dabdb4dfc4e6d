"""Finds the cheapest settings that reach a target, with few runs: each costs a whole simulation."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from cacheaware_sim.bounds.oracle import OracleSettings

UTILIZATIONS = tuple(0.15 * 1.02**n for n in range(132))
"""0.15 to 2.0, each 2 % above the one before; above 1 is for what the prefix cache spares."""
SMOOTHINGS = (1, 3, 6)
WORTH = 0.005
"""Another smoothing is tried only where it would save this share."""
BEYOND = 2
"""Rungs beyond the first bad one that are tried."""


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Found(Generic[R]):
    """What a search has brought."""

    best: tuple[OracleSettings, R] | None
    """The cheapest run that reached the target, and its settings; None: none did."""
    runs: int
    """How many were tried."""


def ladders() -> Iterable[Sequence[OracleSettings]]:
    """All settings: for each smoothing those from the most generous to the tightest."""
    return [
        [OracleSettings(utilization, smoothing) for utilization in UTILIZATIONS]
        for smoothing in SMOOTHINGS
    ]


def cheapest(
    ladders: Iterable[Sequence[OracleSettings]],
    price: Callable[[OracleSettings], float],
    attempt: Callable[[OracleSettings], R | None],
) -> Found[R]:
    """Climb each ladder as far as runs reach the target; of what did, the cheapest.

    The first ladder is halved again and again. Of the others only rungs are tried that promise to
    be cheaper than the best so far: the dearest of them, where that one does well some beyond it,
    in steps that double, and at last between the last good and the first bad one. As luck has its
    part in each run, a rung that fails may have good ones beyond it: in the end `BEYOND` of them
    are tried.

    Args:
        ladders: Settings from the most generous to the tightest, each cheaper than the one before.
        price: What settings promise to cost; no simulation.
        attempt: A run with these settings, or None if it misses the target.
    """
    tried: dict[OracleSettings, R | None] = {}

    def reaches(settings: OracleSettings) -> bool:
        if settings not in tried:
            tried[settings] = attempt(settings)
        return tried[settings] is not None

    best: OracleSettings | None = None
    beyond: Sequence[OracleSettings] = ()
    for ladder in ladders:
        most = inf if best is None else price(best) * (1 - WORTH)
        rungs = [settings for settings in ladder if price(settings) < most]
        good = _last_good(rungs, reaches, halving=best is None)
        if good >= 0:
            best, beyond = rungs[good], rungs[good + 2 : good + 2 + BEYOND]
    best = next((settings for settings in reversed(beyond) if reaches(settings)), best)
    run = None if best is None else tried[best]
    return Found(None if best is None or run is None else (best, run), len(tried))


def _last_good(
    rungs: Sequence[OracleSettings], reaches: Callable[[OracleSettings], bool], *, halving: bool
) -> int:
    """The last rung before one that fails; -1: the first one fails."""
    good, bad, step = -1, len(rungs), len(rungs) if halving else 1
    while bad - good > 1:
        rung = min(good + step, (good + bad) // 2)
        step *= 2
        if reaches(rungs[rung]):
            good = rung
        else:
            bad = rung
    return good
