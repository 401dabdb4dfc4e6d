"""Pods that never change: constant-N, static-peak, static-mean.

The static ones know the whole trace and the profile of the model, which no operator does: they are
what a good estimate before a launch would order. The work of a request of i prompt and o output
tokens is `a1 i/1000 + a2 i^2/10^6 + (o-1) (c0/B + c1 + c2 (i + o/2)/1000)` ms, with B the largest
batch at the mean context (`largest_batch`). static-peak serves the busiest bin of the trace,
static-mean the mean, both at a utilisation below 1.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.policies.capacity import LatencyTargets, largest_batch
from cacheaware_sim.policies.policy import Limits, Orders
from cacheaware_sim.profiles import Profile

Demand = tuple[float, int, int]
"""(arrival in seconds, prompt tokens, output tokens)."""


@dataclass(frozen=True, slots=True)
class StaticSettings:
    """How to read the demand."""

    bin_s: float = 60.0
    utilization: float = 0.8


DEFAULT = StaticSettings()


@dataclass(slots=True)
class _Bin:
    fixed_ms: float = 0.0
    """Work that does not depend on the batch."""
    steps: float = 0.0
    """Decode iterations, each of which shares c0 with its batch."""


def load_curve(
    demand: Iterable[Demand], profile: Profile, targets: LatencyTargets, bin_s: float
) -> list[float]:
    """Pods' worth of work that arrives in each bin, from the first to the last that has any.

    One pass; memory goes with the number of bins.
    """
    bins: defaultdict[int, _Bin] = defaultdict(_Bin)
    output = context = 0.0
    for at, prompt_tokens, output_tokens in demand:
        each = bins[math.floor(at / bin_s)]
        each.fixed_ms += fixed_ms(profile.cost, prompt_tokens, output_tokens)
        each.steps += max(0, output_tokens - 1)
        output += output_tokens
        context += output_tokens * (prompt_tokens + output_tokens / 2)
    if not bins:
        return []
    batch = largest_batch(profile, context / output if output else 0.0, targets.tpot_s)
    step_ms = profile.cost.c0_ms / batch
    work = (bins.get(at, _Bin()) for at in range(min(bins), max(bins) + 1))
    return [(each.fixed_ms + each.steps * step_ms) / 1e3 / bin_s for each in work]


def fixed_ms(
    cost: IterationCost, prompt_tokens: int, output_tokens: int, cached_tokens: int = 0
) -> float:
    """A request's work but for its share of c0, which depends on the batch, in milliseconds.

    >>> cost = IterationCost(c0_ms=6, c1_ms_per_seq=0.25, c2_ms_per_ktok=0.5,
    ...                      a1_ms_per_ktok=16, a2_ms_per_mtok2=0)
    >>> fixed_ms(cost, 1000, 1), fixed_ms(cost, 1000, 3)
    (16.0, 17.5015)
    """
    prefill_ms = cost.chunk_s(cached_tokens, prompt_tokens - cached_tokens) * 1e3
    context = prompt_tokens + output_tokens / 2
    step_ms = cost.c1_ms_per_seq + cost.c2_ms_per_ktok * context / 1e3
    return prefill_ms + max(0, output_tokens - 1) * step_ms


def peak_replicas(load: Iterable[float], utilization: float) -> int:
    """Pods for the busiest bin; 1 without demand.

    >>> peak_replicas([1.0, 4.0, 1.0], 0.8)
    5
    """
    return max(1, math.ceil(max(load, default=0.0) / utilization))


def mean_replicas(load: list[float], utilization: float) -> int:
    """Pods for the mean; 1 without demand.

    >>> mean_replicas([1.0, 4.0, 1.0], 0.8)
    3
    """
    return max(1, math.ceil(sum(load) / max(1, len(load)) / utilization))


class ConstantPolicy:
    """The same number of pods at all times."""

    interval_s = 60.0

    def __init__(self, name: str, replicas: int, limits: Limits) -> None:
        self.name = name
        self.replicas = limits.clamp(replicas)
        self._reason = f"{replicas} wanted"

    def decide(self, seen: Observation) -> Orders:  # noqa: ARG002 - it looks at nothing
        """Always the same."""
        return Orders(self.replicas, reason=self._reason)

    def wrote(self, before: int, after: int, now: float) -> None:
        """Nothing to remember."""
