"""How the peers' tuned settings are found: a grid for each, the train split, one rule.

Each peer has at most twelve settings, its default among them. They run on the first 20 minutes of
both of Azure's traces, which are opposite regimes, and the one setting that does best on both
together is the tuned one: the cheapest of those that reach the targets; where none does, the one
that misses by the fewest points. Nothing of the rest of the traces is used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from cacheaware_sim.bench.matrix import Case
from cacheaware_sim.bench.workloads import CODE, CONV, TRAIN_S, Workload
from cacheaware_sim.policies import aibrix, constant, dynamo, hpa, keda, knative, wva_v1, wva_v2
from cacheaware_sim.policies import token_velocity as velocity
from cacheaware_sim.policies.hpa_behavior import DEFAULT_BEHAVIOR, Behavior
from cacheaware_sim.policies.keda import KedaSettings, Trigger
from cacheaware_sim.policies.registry import PEERS
from cacheaware_sim.policies.tuned import PATIENT, SLOW_DOWN, STEADY, TUNED
from cacheaware_sim.policies.wva import AT_ONCE
from cacheaware_sim.policies.wva_v2 import UNSET_BEHAVIOR

BUDGET = 12
TRAIN: tuple[tuple[Workload, float], ...] = (
    (replace(CONV.first(TRAIN_S), name="conv-train"), 99.0),
    (replace(CODE.first(TRAIN_S), name="code-train"), 95.0),
)
"""Workloads and the per cent of requests to reach."""
_BEHAVIORS = (DEFAULT_BEHAVIOR, PATIENT, STEADY)
_MENDED = replace(aibrix.DEFAULT, unknown_is_zero=False, shrink_to_highest=True)


def _static() -> tuple[Any, ...]:
    grid = product((10.0, 60.0, 300.0), (0.5, 0.6, 0.7, 0.8))
    return tuple(replace(constant.DEFAULT, bin_s=bin_s, utilization=load) for bin_s, load in grid)


def _keda(*triggers: Trigger, behavior: Behavior) -> KedaSettings:
    return KedaSettings(triggers, use_cached_metrics=False, behavior=behavior)


GRIDS: Mapping[str, tuple[Any, ...]] = {
    "static-peak": _static(),
    "static-mean": _static(),
    "hpa-gpu": (
        *(replace(hpa.GPU, target=target, behavior=behavior)
          for target, behavior in product((80, 85, 90, 95), _BEHAVIORS)),
    ),
    "hpa-waiting": (
        *(replace(hpa.WAITING, target=target, behavior=behavior)
          for target, behavior in product((1, 2, 5, 10), _BEHAVIORS)),
    ),
    "keda-kv": (
        keda.KV,
        *(_keda(Trigger("usage", usage), behavior=behavior)
          for usage, behavior in product((0.2, 0.3, 0.4, 0.5, 0.6), (DEFAULT_BEHAVIOR, STEADY))),
    ),
    "keda-waiting": (
        keda.WAITING,
        *(_keda(Trigger("waiting", waiting), behavior=behavior)
          for waiting, behavior in product((1, 2, 5), _BEHAVIORS)),
    ),
    "keda-both": (
        keda.BOTH,
        *(_keda(Trigger("usage", usage), Trigger("waiting", waiting), behavior=behavior)
          for usage, waiting, behavior in product((0.4, 0.5), (2, 5), (PATIENT, STEADY))),
    ),
    "knative-kpa": (
        knative.DEFAULT,
        *(replace(knative.DEFAULT, target=target, scale_down_delay_s=delay)
          for target, delay in product((5.0, 7.0, 10.0, 14.0, 20.0), (0.0, 300.0))),
    ),
    "aibrix-kpa": (
        aibrix.DEFAULT,
        *(replace(_MENDED, fleet_sum=True, target=target, stable_window_s=window)
          for target, window in product((0.1, 0.2, 0.3, 0.4, 0.5), (60.0, 180.0))),
    ),
    "aibrix-apa": (
        aibrix.DEFAULT,
        *(replace(_MENDED, target=target, down_tolerance=tolerance)
          for target, tolerance in product((0.1, 0.2, 0.3, 0.4, 0.5), (0.1, 0.2))),
    ),
    "wva-v1": (
        wva_v1.DEFAULT,
        *(replace(wva_v1.DEFAULT, loop_s=30.0, through=through, kv_threshold=kv,
                  queue_threshold=queue)
          for through, kv, queue in product((AT_ONCE, SLOW_DOWN), (0.4, 0.6, 0.8), (4.0, 5.0))
          if through == SLOW_DOWN or kv > 0.4),
    ),
    "wva-v2": (
        wva_v2.DEFAULT,
        *(replace(wva_v2.DEFAULT, loop_s=30.0, through=through, scale_up_threshold=up,
                  scale_down_boundary=round(up - 0.15, 2))
          for through, up in product((AT_ONCE, UNSET_BEHAVIOR), (0.4, 0.5, 0.6, 0.7, 0.85))),
    ),
    "dynamo": (
        dynamo.DEFAULT,
        *(replace(dynamo.DEFAULT, enable_throughput_scaling=throughput, up_threshold=up,
                  down_threshold=down)
          for throughput, (up, down) in product(
              (True, False), ((1.0, 0.6), (0.8, 0.4), (0.6, 0.3), (0.4, 0.1), (0.2, 0.05)))
          if throughput or up != 1.0),
    ),
    "token-velocity": (
        velocity.DEFAULT,
        *(replace(velocity.DEFAULT, utilization=load, shrink_window_s=window)
          for load, window in product((0.2, 0.3, 0.4, 0.5, 0.6), (180.0, 600.0))),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a setting brought on one workload."""

    attainment_percent: float
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class Choice:
    """A peer's best setting on the train split."""

    policy: str
    number: int
    """In its grid."""
    outcomes: tuple[Outcome, ...]
    """One a workload of `TRAIN`."""
    tried: int

    @property
    def settings(self) -> Any:
        """That setting."""
        return GRIDS[self.policy][self.number]

    @property
    def is_tuned(self) -> bool:
        """Whether it is what the tuned variant has."""
        return bool(self.settings == TUNED[self.policy])


def settings_of(policy: str, variant: str) -> Any:
    """A peer's settings; None of what is no peer.

    >>> settings_of("knative-kpa", "default").target
    70.0
    """
    if policy not in PEERS:
        return None
    if variant == "default":
        return PEERS[policy].default
    return TUNED[policy] if variant == "tuned" else GRIDS[policy][int(variant)]


def tuning_cases(policies: Sequence[str] = ()) -> tuple[Case, ...]:
    """All settings of all peers, or of some, on the train split; one seed."""
    return tuple(
        Case(workload=load, policy=policy, variant=str(number))
        for policy, grid in GRIDS.items()
        if not policies or policy in policies
        for number in range(len(grid))
        for load, _ in TRAIN
    )


def best(policy: str, outcomes: Mapping[int, tuple[Outcome, ...]]) -> Choice:
    """The cheapest setting that reaches all targets; else the one that misses by the least.

    Args:
        policy: The peer.
        outcomes: By the setting's number; one a workload of `TRAIN`.
    """

    def rank(number: int) -> tuple[float, float, int]:
        return (missing(outcomes[number]), sum(one.gpu_hours for one in outcomes[number]), number)

    number = min(outcomes, key=rank)
    return Choice(policy, number, outcomes[number], len(outcomes))


def missing(outcomes: Sequence[Outcome]) -> float:
    """Percentage points below the targets, over all workloads.

    >>> missing((Outcome(99.5, 2.0), Outcome(90.0, 3.0)))
    5.0
    """
    return sum(
        max(0.0, target - one.attainment_percent)
        for one, (_, target) in zip(outcomes, TRAIN, strict=True)
    )
