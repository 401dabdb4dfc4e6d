"""How long pods of a workload take to serve, stage by stage, and when a start is overdue.

A deadline is learned per stage: its 99th percentile times 1.5. It counts from the stage's own
beginning, so that a slow image pull does not use up the time to load. Until five starts were seen,
and for pulling on a node that has not run this workload, the deadline is the pod's startup budget,
else half an hour.
"""

from collections.abc import Iterable
from enum import StrEnum
from math import ceil

from msgspec import Struct

ENOUGH = 5
"""Fewer starts than this tell nothing."""
KEPT = 50
"""Starts that are remembered, the newest."""
PERCENTILE = 99
MARGIN = 1.5
UNLEARNED_S = 1800.0
UNSEEN_S = 120.0
"""Until a start was seen: between what measured engines took with and without their caches warm
(Llama-3.1-8B on L40S: 82 s and 294 s; Qwen3-32B on H100: 92 to 139 s).
"""
LEAST_S = 10.0
"""No deadline is shorter: the API tells times in whole seconds, and rounds have their interval."""


class Stage(StrEnum):
    """What a pod that does not serve yet waits for."""

    SCHEDULE = "schedule"
    """A node."""
    PULL = "pull"
    """Images, volumes, init containers: until the engine's process starts."""
    LOAD = "load"
    """Until the engine is healthy."""
    WARM = "warm"
    """Until the pod is Ready."""


class ColdStart(Struct, frozen=True, kw_only=True):
    """One pod's way from created to serving; seconds per stage."""

    schedule: float
    pull: float
    load: float
    warm: float

    @property
    def total(self) -> float:
        """From created until serving."""
        return self.schedule + self.pull + self.load + self.warm

    def of(self, stage: Stage) -> float:
        """Seconds of one stage."""
        seconds: float = getattr(self, stage.value)
        return seconds


class Starting(Struct, frozen=True):
    """Where a pod that does not serve yet stands."""

    stage: Stage
    age_s: float
    """Since the stage began."""
    new_node: bool = False
    """No pod of this workload has served on its node: the image may not be there."""
    budget_s: float | None = None
    """What its startupProbe gives the engine to load; None without one."""


Starts = tuple[ColdStart, ...]


def with_start(starts: Starts, new: ColdStart) -> Starts:
    """The newest starts, oldest first."""
    return (*starts, new)[-KEPT:]


def percentile(values: Iterable[float], percent: float) -> float | None:
    """The nearest-rank percentile; None of nothing.

    >>> percentile([3, 1, 2], 50)
    2
    """
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)] if ordered else None


def expected_s(starts: Starts) -> float | None:
    """The median cold start; None while too few were seen."""
    return percentile([one.total for one in starts], 50) if len(starts) >= ENOUGH else None


def lead_s(starts: Starts) -> float:
    """How far to look ahead: the median cold start, even of few starts."""
    return percentile([one.total for one in starts], 50) or UNSEEN_S


def deadline_s(starts: Starts, pod: Starting) -> float:
    """How long a pod may stay in its stage before its start is overdue."""
    learned = len(starts) >= ENOUGH and not (pod.new_node and pod.stage is Stage.PULL)
    if not learned:
        given = pod.budget_s if pod.stage is Stage.LOAD else None
        return UNLEARNED_S if given is None else given
    longest = percentile([one.of(pod.stage) for one in starts], PERCENTILE) or 0.0
    return max(LEAST_S, MARGIN * longest)


def is_overdue(starts: Starts, pod: Starting) -> bool:
    """Whether a pod should have left its stage by now."""
    return pod.age_s >= deadline_s(starts, pod)


def left_s(starts: Starts, pod: Starting) -> float | None:
    """Seconds until the pod is expected to serve, by the medians; None while too few were seen."""
    if len(starts) < ENOUGH:
        return None
    medians = {stage: percentile([one.of(stage) for one in starts], 50) or 0.0 for stage in Stage}
    later = list(Stage)[list(Stage).index(pod.stage) + 1 :]
    return max(0.0, medians[pod.stage] - pod.age_s) + sum(medians[stage] for stage in later)
