"""GPU-hours of ours against the best peer's over all workloads, with the doubt that seeds leave.

In each workload: our GPU-hours over those of the cheapest peer whose attainment is ours or better,
all of them means over the same seeds. Where no peer comes up to us there is nothing to divide by,
and the front of constant numbers of pods takes the peers' place. Over workloads: the geometric
mean. The interval: the same again for seeds that are drawn anew, with replacement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from random import Random
from statistics import fmean

from cacheaware_sim.bench.fronts import Point, gpu_hours_at

EQUAL_POINTS = 0.1
"""A peer that misses our attainment by so few percentage points counts as equal to it."""
DRAWS = 2000
FRONT = "constant-N"

Runs = Sequence[Point]
"""One a seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A workload's runs: the n-th of each policy has the n-th seed."""

    ours: Runs
    peers: Mapping[str, Runs]
    constants: Mapping[str, Runs]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Our GPU-hours over somebody's."""

    value: float
    against: str


@dataclass(frozen=True, slots=True)
class Mean:
    """A geometric mean and its interval of 95 %."""

    value: float
    low: float
    high: float

    @property
    def excludes_one(self) -> bool:
        """Whether it is a result at all."""
        return self.high < 1 or self.low > 1


def mean_of(runs: Runs, seeds: Sequence[int]) -> Point:
    """Over seeds, some of them perhaps several times."""
    return Point(
        fmean(runs[seed].attainment for seed in seeds),
        fmean(runs[seed].gpu_hours for seed in seeds),
    )


def against_best_peer(field: Field, seeds: Sequence[int]) -> Ratio | None:
    """Ours over the best peer's, else the front's; None where that does not reach so far either.

    >>> field = Field(ours=[Point(99, 4)], constants={},
    ...               peers={"a": [Point(99.5, 8)], "b": [Point(98, 3)]})
    >>> against_best_peer(field, [0])
    Ratio(value=0.5, against='a')
    """
    ours = mean_of(field.ours, seeds)
    able = [
        (point.gpu_hours, name)
        for name, runs in field.peers.items()
        if (point := mean_of(runs, seeds)).attainment >= ours.attainment - EQUAL_POINTS
    ]
    if not able:
        return against_front(field, seeds)
    hours, name = min(able)
    return Ratio(ours.gpu_hours / hours, name)


def against_front(field: Field, seeds: Sequence[int]) -> Ratio | None:
    """Ours over the front of constants, at our attainment."""
    ours = mean_of(field.ours, seeds)
    front = [mean_of(runs, seeds) for runs in field.constants.values()]
    hours = gpu_hours_at(front, ours.attainment)
    return None if hours is None else Ratio(ours.gpu_hours / hours, FRONT)


def geometric_mean(values: Sequence[float]) -> float:
    """Of numbers above 0.

    >>> round(geometric_mean([0.5, 2.0]), 9)
    1.0
    """
    return exp(fmean(log(value) for value in values))


def bootstrapped(
    fields: Sequence[Field], *, peers: bool, seed: int = 0, draws: int = DRAWS
) -> Mean | None:
    """The geometric mean over workloads, and its interval; None where no ratio is known.

    Args:
        fields: Workloads, each with at least one seed.
        peers: Against the best peer; else against the front everywhere.
        seed: Of the draws.
        draws: How many.
    """
    ratio = against_best_peer if peers else against_front
    compared = [
        (field, over_all)
        for field in fields
        if (over_all := ratio(field, range(_seeds(field)))) is not None
    ]
    if not compared:
        return None
    rng = Random(seed)  # noqa: S311 - statistics
    drawn: list[float] = []
    for _ in range(draws):
        values = []
        for field, over_all in compared:
            seeds = range(_seeds(field))
            # where these seeds leave nothing to compare with, what all of them say stands
            again = ratio(field, rng.choices(seeds, k=len(seeds))) or over_all
            values.append(again.value)
        drawn.append(geometric_mean(values))
    drawn.sort()
    found = geometric_mean([over_all.value for _, over_all in compared])
    return Mean(found, _quantile(drawn, 0.025), _quantile(drawn, 0.975))


def _quantile(ordered: Sequence[float], q: float) -> float:
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def _seeds(field: Field) -> int:
    """That all policies have."""
    runs = (field.ours, *field.peers.values(), *field.constants.values())
    return min(len(one) for one in runs)
