"""The Kubernetes Horizontal Pod Autoscaler (autoscaling/v2) on two signals: hpa-gpu, hpa-waiting.

Source: Kubernetes 1.33, pkg/controller/podautoscaler; the loop runs each 15 s
(--horizontal-pod-autoscaler-sync-period). `Hpa` is the part behind the metrics, which KEDA and WVA
use as well.

What is approximated. *GPU utilisation*: DCGM_FI_DEV_GPU_UTIL is the share of time in which any
kernel ran, so a pod that executes a request shows 100 % and one that loads or idles 0 %. Here it is
100 where the engine's page says running > 0. The exporter watches the node, so a pod that still
loads has a value. *Waiting*: vllm:num_requests_waiting through an adapter as a Pods metric; a pod
that runs but does not answer yet has none. No pod is Pending long enough to matter.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cacheaware_sim.fleet.scraped import Observation, PodSample
from cacheaware_sim.policies.hpa_behavior import (
    DEFAULT_BEHAVIOR,
    Behavior,
    Changed,
    Recommended,
    limited,
    stabilized,
)
from cacheaware_sim.policies.hpa_metrics import (
    TEN_PERCENT,
    PodMetric,
    Tolerance,
    pods_metric_replicas,
)
from cacheaware_sim.policies.policy import Limits, Orders, hold, not_terminating

SYNC_S = 15.0


@dataclass(frozen=True, slots=True)
class HpaSettings:
    """One HPA with one Pods metric."""

    target: float
    """What one pod should have: percent of GPU, or waiting requests."""
    tolerance: Tolerance = TEN_PERCENT
    behavior: Behavior = DEFAULT_BEHAVIOR
    sync_s: float = SYNC_S


GPU = HpaSettings(target=80)
WAITING = HpaSettings(target=2)


class Hpa:
    """Windows, rates and limits of one HPA: from what the metrics ask for to what is written."""

    def __init__(self, behavior: Behavior, limits: Limits) -> None:
        self._behavior = behavior
        self._limits = limits
        self._recommended: tuple[Recommended, ...] = ()
        self._changed: tuple[Changed, ...] = ()

    def follow(self, seen: Observation, proposal: int | None, reason: str) -> Orders:
        """Orders for what the metrics ask for; None: they can't be read."""
        current = seen.replicas
        bounded = self._limits.clamp(current)
        if bounded != current:
            return Orders(bounded, reason="limits")
        if not self._recommended:
            self._recommended = (Recommended(seen.now, current),)
        if proposal is None:
            return hold(seen, f"{reason}: no metrics")
        stable = stabilized(current, proposal, self._recommended, self._behavior, seen.now)
        self._remember(Recommended(seen.now, proposal))
        replicas = limited(
            current, stable, self._changed, self._behavior, limits=self._limits, now=seen.now
        )
        return Orders(replicas, reason=f"{reason}: {proposal} wanted, {stable} stable")

    def wrote(self, before: int, after: int, now: float) -> None:
        """Count a change against the rates."""
        rates = (*self._behavior.up.rates, *self._behavior.down.rates)
        longest = max(rate.period_s for rate in rates)
        kept = (change for change in self._changed if change.at > now - longest)
        self._changed = (*kept, Changed(now, after - before))

    def _remember(self, new: Recommended) -> None:
        longest = max(self._behavior.up.window_s, self._behavior.down.window_s)
        kept = (past for past in self._recommended if past.at > new.at - longest)
        self._recommended = (*kept, new)


def gpu_percent(pod: PodSample) -> float | None:
    """GPU utilisation as DCGM shows it; None where the engine's page can't tell."""
    if pod.sample is None:
        return None if pod.ready else 0.0
    running = pod.sample.running
    return None if running is None else 100.0 * (running > 0)


def waiting_requests(pod: PodSample) -> float | None:
    """vllm:num_requests_waiting."""
    return None if pod.sample is None else pod.sample.waiting


def pod_metric(seen: Observation, value_of: Callable[[PodSample], float | None]) -> PodMetric:
    """The Pods metric over the pods that do not terminate."""
    values = [value_of(pod) for pod in not_terminating(seen.pods)]
    known = tuple(value for value in values if value is not None)
    return PodMetric(known, missing=len(values) - len(known))


class HpaPolicy:
    """An HPA that reads one Pods metric."""

    def __init__(
        self,
        name: str,
        value_of: Callable[[PodSample], float | None],
        settings: HpaSettings,
        limits: Limits,
    ) -> None:
        self.name = name
        self.interval_s = settings.sync_s
        self._value_of = value_of
        self._settings = settings
        self._hpa = Hpa(settings.behavior, limits)

    def decide(self, seen: Observation) -> Orders:
        """What the HPA writes now."""
        metric = pod_metric(seen, self._value_of)
        proposal = pods_metric_replicas(
            seen.replicas, metric, self._settings.target, self._settings.tolerance
        )
        return self._hpa.follow(seen, proposal, self.name)

    def wrote(self, before: int, after: int, now: float) -> None:
        """Count a change against the rates."""
        self._hpa.wrote(before, after, now)
