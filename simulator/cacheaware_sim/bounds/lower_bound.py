"""The fewest GPU-seconds by which the work of a trace can be done in time: a linear program.

A fluid to which any policy and any router can only lose: replicas may be fractions, work may be
split at will, and each request may take until its latest deadline. Only starts cost what they cost.
Bursts below some ten seconds need parallelism that a fluid does not: there the bound is loose. It
is for doing all of the work in time; who leaves some of it undone may need less by that.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from cacheaware_sim.bounds.work import Curves

Term = tuple[int, int, float]
"""(row, column, coefficient)."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """An optimum."""

    pod_seconds: float
    """Of pods that serve and pods that start."""
    starting_seconds: float
    """Of them: of pods that start."""
    replicas: tuple[float, ...]
    """That serve, in each bin."""


def lower_bound(
    curves: Curves, cold_start_s: float, *, start_replicas: float, min_replicas: float = 0.0
) -> LowerBound:
    """Minimise `sum(r_t dt) + cold_start_s sum(u_t)`, solved by HiGHS.

    Subject to `0 <= S_t - S_(t-1) <= r_t dt`, `D_t <= S_t <= A_t`, `u_t >= r_t - r_(t-1)`, with
    replicas r, starts u >= 0 and the work S done by the end of each bin of dt seconds; by then A
    has arrived and D was due. Work may be done in the bin in which it comes and up to the end of
    the one in which it is due, so wide bins make the bound lower, never higher.

    Args:
        curves: The work.
        cold_start_s: What a start costs before its pod serves.
        start_replicas: Pods that serve before the first bin.
        min_replicas: The least that serve; above 0 it is no bound for policies that may go lower.

    Ten seconds of work, due by the end of the second of two bins of five:

    >>> work = Curves(5.0, arrived=(10.0, 0.0), due=(0.0, 10.0))
    >>> lower_bound(work, 60.0, start_replicas=1).replicas
    (1.0, 1.0)
    """
    bins, dt = len(curves.arrived), curves.bin_s
    solved = linprog(
        c=[dt] * bins + [cold_start_s] * bins + [0.0] * bins,
        A_ub=_matrix(bins, dt),
        b_ub=[start_replicas] + [0.0] * (3 * bins - 1),
        bounds=[(min_replicas, None)] * bins + [(0.0, None)] * bins + _done(curves),
        method="highs",
    )
    if not solved.success:
        raise ArithmeticError(f"the linear program has no solution: {solved.message}")
    return LowerBound(
        pod_seconds=float(solved.fun),
        starting_seconds=cold_start_s * float(sum(solved.x[bins : 2 * bins])),
        replicas=tuple(map(float, solved.x[:bins])),
    )


def _matrix(bins: int, dt: float) -> Any:
    """The left sides of `... <= b`, on the columns r, u, S: starts, then speed, then order."""
    terms: list[Term] = []
    for t in range(bins):
        replicas, starts, done = t, bins + t, 2 * bins + t
        speed, order = bins + t, 2 * bins + t
        terms += [(t, replicas, 1.0), (t, starts, -1.0)]
        terms += [(speed, done, 1.0), (speed, replicas, -dt), (order, done, -1.0)]
        if t:
            terms += [(t, replicas - 1, -1.0), (speed, done - 1, -1.0), (order, done - 1, 1.0)]
    rows, columns, values = zip(*terms, strict=True)
    return coo_matrix((values, (rows, columns)), shape=(3 * bins, 3 * bins))


def _done(curves: Curves) -> list[tuple[float, float]]:
    """The least and the most work done by the end of each bin."""
    arrived, due = accumulate(curves.arrived), accumulate(curves.due)
    # The sums are taken in different orders: a last digit must not make them contradict each other.
    return [(min(least, most), most) for least, most in zip(due, arrived, strict=True)]
