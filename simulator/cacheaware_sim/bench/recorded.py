"""The recorded position of our policy, and whether it has fallen behind it by more than noise.

A position is how many per cent of GPU-hours ours pays more than constant pods at the same
attainment, seed by seed. Runs are repeatable, so any difference comes from a change of the code;
but a change that means no harm moves single requests, as another seed does. So the spread over
seeds is the measure: two standard deviations of the difference of two means over so many seeds,
and never less than `LEAST_PERCENT` and `LEAST_POINTS`. A generator's seed is not another run of the
same trace but another trace; there, the spread of the trace that it is like is taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from cacheaware_sim.bench.fronts import Point, right_of_front
from cacheaware_sim.bench.results import Table

LEAST_PERCENT = 1.0
"""Of GPU-hours."""
LEAST_POINTS = 0.3
"""Of attainment."""
SIGMAS = 2.0


@dataclass(frozen=True, slots=True)
class Position:
    """Ours on a workload, seed by seed, and the front that constants had."""

    ours: tuple[Point, ...]
    right_percent: tuple[float | None, ...]
    front: Mapping[str, Point]
    """By the policy's name; means over seeds."""

    def first(self, seeds: int) -> "Position":
        """Of the first seeds."""
        return Position(self.ours[:seeds], self.right_percent[:seeds], self.front)

    @property
    def point(self) -> Point:
        """The mean over seeds."""
        return Point(
            fmean(one.attainment for one in self.ours), fmean(one.gpu_hours for one in self.ours)
        )

    @property
    def right(self) -> float | None:
        """The mean over seeds; None where the front does not reach ours at one of them."""
        known = [one for one in self.right_percent if one is not None]
        return fmean(known) if known and len(known) == len(self.right_percent) else None

    def as_json(self) -> dict[str, Any]:
        """For the file."""
        return {
            "ours": [[one.attainment, one.gpu_hours] for one in self.ours],
            "right_percent": [None if one is None else round(one, 3) for one in self.right_percent],
            "front": {
                name: [round(one.attainment, 3), round(one.gpu_hours, 4)]
                for name, one in self.front.items()
            },
        }


def position_of(table: Table) -> Position:
    """Of the runs of a workload.

    Raises:
        ValueError: Ours is not among them.
    """
    if table.ours is None:
        raise ValueError(f"{table.workload.name}: must have runs of cacheaware")
    ours = table.ours.points
    fronts = zip(*(row.points for row in table.constants), strict=True)
    return Position(
        ours=ours,
        right_percent=tuple(
            right_of_front(point, front) for point, front in zip(ours, fronts, strict=True)
        ),
        front={row.policy: row.point for row in table.constants},
    )


def position_from(stored: Mapping[str, Any]) -> Position:
    """From the file.

    Raises:
        KeyError, TypeError, ValueError: It was not written by `as_json`.
    """
    return Position(
        ours=tuple(Point(*pair) for pair in stored["ours"]),
        right_percent=tuple(stored["right_percent"]),
        front={name: Point(*pair) for name, pair in stored["front"].items()},
    )


def noise(values: Sequence[float], seeds: int, least: float) -> float:
    """What the mean over `seeds` may differ by, from what is recorded of more of them.

    >>> noise([1.0, 1.0], 2, least=0.5)
    0.5
    >>> noise([0.0, 2.0], 2, least=0.5)    # 2 x 1.414 x sqrt(2 / 2)
    2.8284271247461903
    """
    spread = stdev(values) if len(values) > 1 else 0.0
    return max(least, SIGMAS * spread * sqrt(2 / seeds))


def behind(
    name: str, now: Position, recorded: Position, like: Position | None = None
) -> str | None:
    """One line that says how ours fell behind; None if it did not.

    Where the front does not reach ours, the GPU-hours are compared as they are.

    Args:
        name: Of the workload.
        now: Ours today.
        recorded: Ours as it was.
        like: What tells the spread over seeds; by default `recorded`.
    """
    like = like or recorded
    seeds = min(len(now.ours), len(recorded.ours))
    past, today = recorded.first(seeds), now.first(seeds)
    points = noise([one.attainment for one in like.ours], seeds, LEAST_POINTS)
    fewer = past.point.attainment - today.point.attainment
    if fewer > points:
        return (
            f"{name}: {_told(today)}, recorded {_told(past)}: "
            f"{fewer:.2f} points of attainment less, noise is {points:.2f}"
        )
    if past.right is not None and today.right is not None:
        known = [one for one in like.right_percent if one is not None]
        allowed, more = noise(known, seeds, LEAST_PERCENT), today.right - past.right
    else:
        hours = [100 * one.gpu_hours / like.point.gpu_hours for one in like.ours]
        allowed = noise(hours, seeds, LEAST_PERCENT)
        more = 100 * (today.point.gpu_hours / past.point.gpu_hours - 1)
        # more attainment may cost more; without a front nobody knows how much
        if today.point.attainment > past.point.attainment + points:
            return None
    if more > allowed:
        return (
            f"{name}: {_told(today)}, recorded {_told(past)}: "
            f"{more:.1f} % of GPU-hours further right, noise is {allowed:.1f} %"
        )
    return None


def _told(one: Position) -> str:
    right = "" if one.right is None else f" ({one.right:+.1f} % of the front)"
    return f"{one.point.attainment:.2f} % at {one.point.gpu_hours:.3f} GPU-hours{right}"
