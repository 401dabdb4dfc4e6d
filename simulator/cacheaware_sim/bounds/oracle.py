"""A policy that knows the whole trace, and orders what it will need in time.

It is feasible: it does nothing but write replicas, and its pods start and drain as all others do.
So the true optimum is between it and the lower bound. What it needs at a time is the work that
arrives then over a utilisation; which utilisation and how much smoothing is found by trying
(`bounds.search`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cacheaware.recording.hindsight import covering
from cacheaware_sim.bounds.work import Curves, Job, curves_of
from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies.policy import Limits, Orders
from cacheaware_sim.policies.registry import Setup

NAME = "oracle"
BIN_S = 5.0
MARGIN = 1.5
"""Deviations of the cold start that orders come early: 93 % of the pods are there in time."""


@dataclass(frozen=True, slots=True, order=True)
class OracleSettings:
    """How to read the work."""

    utilization: float = 0.5
    """What pods may be loaded to, as a share of their time."""
    smoothing: int = 1
    """Bins over which work is averaged."""


def smoothed(load: Sequence[float], bins: int) -> list[float]:
    """Means over the bins around each, with fewer of them at both ends.

    >>> smoothed([0.0, 6.0, 0.0, 0.0], 3)
    [3.0, 2.0, 2.0, 0.0]
    """
    before, after = bins // 2, (bins - 1) // 2
    windows = (load[max(0, at - before) : at + after + 1] for at in range(len(load)))
    return [sum(window) / len(window) for window in windows]


def needed(load: Sequence[float], settings: OracleSettings, limits: Limits) -> list[int]:
    """Pods that must serve in each bin: for its work, and for what the bin before may leave.

    `load` is the work that arrives, in pods.

    >>> needed([0.0, 1.2, 0.3, 0.0], OracleSettings(utilization=0.5), Limits(1, 40))
    [1, 3, 3, 1]
    """
    pods = [math.ceil(each / settings.utilization) for each in smoothed(load, settings.smoothing)]
    pairs = zip([0, *pods], pods, strict=False)
    return [limits.clamp(max(pair)) for pair in pairs]


def ordered(need: Sequence[int], ahead: int) -> list[int]:
    """Replicas to ask for in each bin: the most that is needed in it or in the `ahead` next ones.

    >>> ordered([1, 1, 1, 3, 1, 1, 2], 2)
    [1, 3, 3, 3, 2, 2, 2]
    """
    return covering(range(len(need)), need, ahead)


@dataclass(frozen=True, slots=True)
class Plan:
    """Replicas to ask for in each bin; the last ones for good."""

    bin_s: float
    replicas: tuple[int, ...]

    def at(self, now: float) -> int:
        """What to ask for at a time."""
        return self.replicas[min(int(now / self.bin_s), len(self.replicas) - 1)]

    @property
    def pod_seconds(self) -> float:
        """Roughly what it costs: without the time that pods take to drain."""
        return sum(self.replicas) * self.bin_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What the oracle is told."""

    work: Curves
    cold_start_s: tuple[float, float]
    """Mean and standard deviation. Which start will be slow it does not know."""
    limits: Limits

    def plan(self, settings: OracleSettings) -> Plan:
        """What to ask for so that nearly all pods for a bin serve when it begins."""
        load = [seconds / self.work.bin_s for seconds in self.work.arrived]
        mean, deviation = self.cold_start_s
        ahead = math.ceil((mean + MARGIN * deviation) / self.work.bin_s)
        need = needed(load, settings, self.limits)
        return Plan(self.work.bin_s, tuple(ordered(need, ahead)))


class OraclePolicy:
    """Asks for what its plan says."""

    name = NAME
    interval_s = BIN_S

    def __init__(self, known: Knowledge, settings: OracleSettings | None = None) -> None:
        self.known = known
        self.plan = known.plan(settings or OracleSettings())

    def decide(self, seen: Observation) -> Orders:
        """What the plan says for now."""
        return Orders(self.plan.at(seen.now), reason="planned")

    def wrote(self, before: int, after: int, now: float) -> None:
        """Nothing to remember."""


def oracle_of(setup: Setup) -> OraclePolicy:
    """The oracle of a run, with the default settings."""
    jobs = (Job(*one) for one in setup.demand())
    work = curves_of(jobs, setup.profile, setup.targets, BIN_S)
    return OraclePolicy(Knowledge(work=work, cold_start_s=setup.cold_start_s, limits=setup.limits))
