"""What can be said of ours in a table: who is left of it, where it is right of the front."""

from dataclasses import dataclass

from cacheaware_sim.bench.bootstrap import Ratio, against_best_peer
from cacheaware_sim.bench.fronts import dominates, gpu_hours_at, right_of_front
from cacheaware_sim.bench.results import Row, Table

LEAST_PERCENT = 50.0
"""Below, a policy does not serve, and where it stands says nothing."""
ON_FRONT = 1.0
"""Per cent of GPU-hours: nearer to the front is on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Ours in one table; None is unknown."""

    ours: Row
    right_percent: float | None
    """Of the front of constants; below 0: left."""
    beaten_by: tuple[Row, ...]
    """Peers that reach as much for less, or more for as little."""
    beats: tuple[Row, ...]
    left_of_us: tuple[Row, ...]
    """Peers further left of the front than ours, each at its own attainment."""
    ratio: Ratio | None
    """To the best peer at equal or better attainment."""
    against_front: bool
    """Whether no peer reaches it, so that the ratio is to the front."""
    oracle_regret_percent: float | None
    bound_ratio: float | None
    lost_to_scale_down: float


def verdict(table: Table) -> Verdict | None:
    """Of a table with ours in it."""
    ours, field = table.ours, table.field
    if ours is None or field is None:
        return None
    right = right_of_front(ours.point, table.front)
    seeds = range(min(len(row.results) for row in table.rows))
    ratio = against_best_peer(field, seeds)
    first = ours.points[0]
    with_hindsight = gpu_hours_at(table.oracle_front, first.attainment)
    return Verdict(
        ours=ours,
        right_percent=right,
        beaten_by=tuple(row for row in table.peers if dominates(row.point, ours.point)),
        beats=tuple(row for row in table.peers if dominates(ours.point, row.point)),
        left_of_us=tuple(row for row in table.peers if _further_left(row, right, table)),
        ratio=ratio,
        against_front=ratio is not None and ratio.against not in field.peers,
        oracle_regret_percent=(
            None if with_hindsight is None else 100 * (first.gpu_hours / with_hindsight - 1)
        ),
        bound_ratio=None if table.bound is None else first.gpu_hours / table.bound["gpu_hours"],
        lost_to_scale_down=sum(ours.known("lost_to_scale_down")),
    )


def _further_left(row: Row, right: float | None, table: Table) -> bool:
    theirs = right_of_front(row.point, table.front)
    return (
        right is not None
        and theirs is not None
        and row.point.attainment >= LEAST_PERCENT
        and theirs < right
    )
