"""From metrics to replicas, as the Horizontal Pod Autoscaler (autoscaling/v2) does it.

Source: Kubernetes 1.33, pkg/controller/podautoscaler/replica_calculator.go, where the tolerance
has two sides and their edges are inside (KEP-4951). Quantities are numbers here; the API's rounding
to thousandths is left out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far from 1 the ratio of metric to target may be with nothing done.

    Default: kube-controller-manager's --horizontal-pod-autoscaler-tolerance.
    """

    up: float = 0.1
    down: float = 0.1

    def holds(self, ratio: float) -> bool:
        """Whether the ratio is near enough to 1.

        >>> Tolerance().holds(1.1), Tolerance().holds(1.11), Tolerance().holds(0.89)
        (True, False, False)
        """
        return 1 - self.down <= ratio <= 1 + self.up


TEN_PERCENT = Tolerance()


@dataclass(frozen=True, slots=True)
class PodMetric:
    """A Pods metric at one moment."""

    values: tuple[float, ...]
    """Of running pods that have one."""
    missing: int = 0
    """Running pods without one."""
    pending: int = 0
    """Pods whose containers do not run yet."""

    def mean(self) -> float:
        """The mean of what there is."""
        return sum(self.values) / len(self.values)


def pods_metric_replicas(
    current: int, metric: PodMetric, target: float, tolerance: Tolerance
) -> int | None:
    """Replicas for a Pods metric with a target per pod; None where no pod has a value.

    Pods without a value count as the target when the others ask to shrink, as 0 when they ask to
    grow; if that turns the direction or falls within the tolerance, nothing changes.

    >>> pods_metric_replicas(4, PodMetric((3.0, 3.0, 3.0), missing=1), 2, Tolerance())
    5
    """
    if not metric.values:
        return None
    ratio = metric.mean() / target
    rebalance = metric.pending > 0 and ratio > 1
    if not rebalance and not metric.missing:
        return current if tolerance.holds(ratio) else math.ceil(ratio * len(metric.values))
    filled = _filled(metric, ratio, target, rebalance=rebalance)
    new_ratio = filled.mean() / target
    if tolerance.holds(new_ratio) or _opposite(ratio, new_ratio):
        return current
    replicas = math.ceil(new_ratio * len(filled.values))
    return current if (replicas - current) * (new_ratio - 1) < 0 else replicas


def _filled(metric: PodMetric, ratio: float, target: float, *, rebalance: bool) -> PodMetric:
    missing = (target if ratio < 1 else 0.0,) * metric.missing
    pending = (0.0,) * metric.pending if rebalance else ()
    return PodMetric((*metric.values, *missing, *pending))


def _opposite(ratio: float, new_ratio: float) -> bool:
    return (ratio < 1 < new_ratio) or (new_ratio < 1 < ratio)


def average_value_replicas(
    total: float, target: float, status_replicas: int, tolerance: Tolerance
) -> int:
    """Replicas for an External metric with a target per pod (AverageValue).

    Args:
        total: The metric's value.
        target: What one pod should have of it.
        status_replicas: Pods that exist and do not terminate, ready or not.
        tolerance: About total / (target x pods).

    >>> average_value_replicas(9.0, 2, 4, Tolerance())
    5
    """
    if status_replicas and tolerance.holds(total / (target * status_replicas)):
        return status_replicas
    return math.ceil(total / target)


def value_replicas(
    value: float, target: float, current: int, ready_pods: int, tolerance: Tolerance
) -> int:
    """Replicas for an External or Object metric with one target for all (Value).

    >>> value_replicas(3.0, 2, 4, 4, Tolerance())
    6
    """
    ratio = value / target
    if not current:
        return math.ceil(ratio)
    return current if tolerance.holds(ratio) else math.ceil(ratio * ready_pods)


def largest(proposals: Sequence[int | None], current: int) -> int | None:
    """Of several metrics the largest; None where too little is known to act.

    A metric that can't be read forbids a shrink, but not a growth.

    >>> largest([3, None], 2), largest([1, None], 2), largest([1, 0], 2)
    (3, None, 1)
    """
    known = [proposal for proposal in proposals if proposal is not None]
    if not known:
        return None
    most = max(known)
    return most if len(known) == len(proposals) or most >= current else None
