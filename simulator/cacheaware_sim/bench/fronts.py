"""The front of constant numbers of pods, and where a policy stands against it."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Point:
    """What was reached at what cost."""

    attainment: float
    """Per cent of requests."""
    gpu_hours: float


def dominates(one: Point, other: Point) -> bool:
    """Whether one is at least as good in both, and better in one of them.

    >>> dominates(Point(99, 5), Point(98, 6)), dominates(Point(99, 6), Point(98, 5))
    (True, False)
    """
    return one.attainment >= other.attainment and one.gpu_hours <= other.gpu_hours and one != other


def front_of(points: Iterable[Point]) -> tuple[Point, ...]:
    """Those that no other dominates, from cheap to dear.

    >>> front_of([Point(99, 6), Point(90, 5), Point(98, 7)])
    (Point(attainment=90, gpu_hours=5), Point(attainment=99, gpu_hours=6))
    """
    there = set(points)
    kept = (one for one in there if not any(dominates(other, one) for other in there))
    return tuple(sorted(kept, key=lambda point: point.gpu_hours))


def gpu_hours_at(front: Iterable[Point], attainment: float) -> float | None:
    """What the front pays for an attainment: on the straight line between two neighbours.

    None where it does not reach so far, or begins above it.

    >>> gpu_hours_at([Point(90, 5), Point(98, 6)], 94)
    5.5
    """
    for low, high in pairwise(front_of(front)):
        if low.attainment <= attainment <= high.attainment:
            share = (attainment - low.attainment) / (high.attainment - low.attainment)
            return low.gpu_hours + share * (high.gpu_hours - low.gpu_hours)
    return next((one.gpu_hours for one in front_of(front) if one.attainment == attainment), None)


def right_of_front(point: Point, front: Iterable[Point]) -> float | None:
    """Per cent of GPU-hours above the front at the same attainment; below 0: left of it, cheaper.

    None where the front has no such attainment.

    >>> round(right_of_front(Point(94, 6.6), [Point(90, 5), Point(98, 6)]), 6)
    20.0
    """
    there = gpu_hours_at(front, point.attainment)
    return None if there is None else 100 * (point.gpu_hours / there - 1)
