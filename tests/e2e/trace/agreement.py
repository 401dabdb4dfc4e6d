"""How well two timelines of a fleet agree: one of a real cluster, one of the simulator."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

STEP_S = 5.0
LONGEST_GAP_S = 30.0
"""A timeline with a larger hole tells too little."""
LARGEST_SHIFT_S = 20.0
MOST_APART = 0.15
LEAST_WITHIN_ONE = 0.8


@dataclass(frozen=True, slots=True)
class Moment:
    """A fleet at a moment."""

    at_s: float
    """Since the first request."""
    replicas: int
    """What is asked for."""
    pods: int
    """All that exist, starting and terminating ones, too: what costs."""
    serving: int
    running: float | None
    waiting: float | None
    """Requests in the engines; None: an engine did not tell."""


def on_grid(moments: Sequence[Moment], span_s: float, step_s: float = STEP_S) -> list[Moment]:
    """What was last seen at each step until `span_s`; each moment keeps its own time.

    Raises:
        ValueError: Nothing was seen at the first step, or for longer than half a minute.
    """
    ordered = sorted(moments, key=lambda one: one.at_s)
    if not ordered or ordered[0].at_s > step_s:
        raise ValueError(f"the timeline must begin by {step_s:g} s")
    times = [*(one.at_s for one in ordered), span_s]
    for before, after in pairwise(times):
        if after - before > LONGEST_GAP_S:
            raise ValueError(f"nothing seen from {before:.0f} to {after:.0f} s")
    steps = (step_s * number for number in range(1, int(span_s / step_s) + 1))
    return [ordered[bisect_right(times, step, hi=len(ordered)) - 1] for step in steps]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same figure of both."""

    cluster: float
    simulator: float

    @property
    def apart(self) -> float:
        """The cluster's distance as a share of the simulator's figure: 0.1 is 10 % more."""
        return self.cluster / self.simulator - 1


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far apart two timelines are."""

    replicas: Pair
    """Mean of what is asked for."""
    pod_seconds: Pair
    serving: Pair
    running: Pair
    waiting: Pair
    grew_s: Pair
    """When it first asked for more than at its start; NaN: never."""
    shrank_s: Pair
    """When it first asked for less than before; NaN: never."""
    within_one: float
    """Share of the time in which replicas differ by one at most, at the best shift."""
    same: float
    """Share of the time in which they are the same, at that shift."""
    shift_s: float
    """By so much the cluster is later than the simulator."""

    def misses(self) -> list[str]:
        """What is out of tolerance: a line each, none if the two agree."""
        pairs = {"mean replicas": self.replicas, "pod-seconds": self.pod_seconds}
        found = [
            f"{name}: {pair.apart:+.1%}, must be within {MOST_APART:.0%}"
            for name, pair in pairs.items()
            if not abs(pair.apart) <= MOST_APART
        ]
        if not self.within_one >= LEAST_WITHIN_ONE:
            found.append(
                f"replicas within one in {self.within_one:.0%} of the time,"
                f" must be {LEAST_WITHIN_ONE:.0%}"
            )
        if not self._grew_together():
            found.append(
                f"first growth at {self.grew_s.cluster:g} and {self.grew_s.simulator:g} s,"
                f" must be within {LARGEST_SHIFT_S:g} s"
            )
        if math.isnan(self.shrank_s.cluster) != math.isnan(self.shrank_s.simulator):
            found.append("only one of the two has shrunk")
        return found

    def _grew_together(self) -> bool:
        times = (self.grew_s.cluster, self.grew_s.simulator)
        never = [math.isnan(time) for time in times]
        return all(never) or abs(times[0] - times[1]) <= LARGEST_SHIFT_S


def agreement(
    cluster: Sequence[Moment], simulator: Sequence[Moment], step_s: float = STEP_S
) -> Agreement:
    """Compare two timelines on the same grid.

    One shift holds for the whole run: a cluster may notice and write later than the simulator, but
    not now sooner and then later.

    Raises:
        ValueError: They are not of the same length, or too short to be shifted.
    """
    most = int(LARGEST_SHIFT_S / step_s)
    if len(cluster) != len(simulator) or len(cluster) <= 2 * most:
        raise ValueError(
            f"{len(cluster)} and {len(simulator)} moments:"
            f" must be equally many, and more than {2 * most}"
        )
    shifts = range(-most, most + 1)
    alike = {shift: _alike(cluster, simulator, shift) for shift in shifts}
    shift = max(shifts, key=lambda one: (*alike[one], -abs(one)))
    within_one, same = alike[shift]

    def pair(value: Callable[[Moment], float | None]) -> Pair:
        return Pair(mean_of(map(value, cluster)), mean_of(map(value, simulator)))

    pods = pair(lambda one: one.pods)
    seconds = step_s * len(cluster)
    return Agreement(
        replicas=pair(lambda one: one.replicas),
        pod_seconds=Pair(pods.cluster * seconds, pods.simulator * seconds),
        serving=pair(lambda one: one.serving),
        running=pair(lambda one: one.running),
        waiting=pair(lambda one: one.waiting),
        grew_s=Pair(first_growth_s(cluster), first_growth_s(simulator)),
        shrank_s=Pair(first_shrink_s(cluster), first_shrink_s(simulator)),
        within_one=within_one,
        same=same,
        shift_s=shift * step_s,
    )


def _alike(
    cluster: Sequence[Moment], simulator: Sequence[Moment], shift: int
) -> tuple[float, float]:
    """Shares of the time in which replicas differ by at most one, and not at all."""
    late, early = cluster[max(0, shift) :], simulator[max(0, -shift) :]
    apart = [abs(one.replicas - other.replicas) for one, other in zip(late, early, strict=False)]
    return fmean(one <= 1 for one in apart), fmean(one == 0 for one in apart)


def first_growth_s(moments: Sequence[Moment]) -> float:
    """When more was asked for than in the first moment; NaN: never."""
    start = moments[0].replicas
    return next((one.at_s for one in moments if one.replicas > start), math.nan)


def first_shrink_s(moments: Sequence[Moment]) -> float:
    """When less was asked for than before; NaN: never."""
    most = 0
    for one in moments:
        if one.replicas < most:
            return one.at_s
        most = one.replicas
    return math.nan


def mean_of(values: Iterable[float | None]) -> float:
    """The mean of what is known; NaN of nothing."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else math.nan
