"""KEDA on engine metrics: keda-kv, keda-waiting, keda-both.

Source: kedacore/keda 8b4f083, pkg/scalers/prometheus_scaler.go, and the keda-docs on triggers,
caching and advanced settings. From 1 to N KEDA feeds External metrics (AverageValue) to an HPA; its
own polling decides only between 0 and 1, which does not arise here. Each trigger is a query over
the fleet, `sum(vllm:kv_cache_usage_perc)` or `sum(vllm:num_requests_waiting)`: with an average, the
HPA could never ask for more than 1/threshold pods. `ignoreNullValues` is true: an empty answer
counts as 0.

What is chosen. The default reads each trigger every 30 s (`pollingInterval` with
`useCachedMetrics`); without `useCachedMetrics`, which is off upstream, each sync of the HPA reads
anew. Thresholds are those of published examples: 0.7 of the cache, 2
requests waiting.
"""

from dataclasses import dataclass
from typing import Literal

from cacheaware_sim.fleet.scraped import Observation, PodSample
from cacheaware_sim.policies.hpa import SYNC_S, Hpa
from cacheaware_sim.policies.hpa_behavior import DEFAULT_BEHAVIOR, Behavior
from cacheaware_sim.policies.hpa_metrics import (
    TEN_PERCENT,
    Tolerance,
    average_value_replicas,
    largest,
)
from cacheaware_sim.policies.policy import Every, Limits, Orders, not_terminating

Query = Literal["usage", "waiting"]


@dataclass(frozen=True, slots=True)
class Trigger:
    """A query, summed over the fleet, and what one pod should have of it."""

    query: Query
    threshold: float


@dataclass(frozen=True, slots=True)
class KedaSettings:
    """One ScaledObject."""

    triggers: tuple[Trigger, ...]
    poll_s: float = 30.0
    use_cached_metrics: bool = True
    """Whether the HPA gets the last polled value or a fresh one."""
    tolerance: Tolerance = TEN_PERCENT
    behavior: Behavior = DEFAULT_BEHAVIOR


KV = KedaSettings((Trigger("usage", 0.7),))
WAITING = KedaSettings((Trigger("waiting", 2),))
BOTH = KedaSettings((Trigger("usage", 0.7), Trigger("waiting", 2)))


def query_sum(pods: tuple[PodSample, ...], query: Query) -> float:
    """The answer of a Prometheus query `sum(...)`: over the pods that answer; 0 if none does."""
    values = (getattr(pod.sample, query) for pod in pods if pod.sample is not None)
    return float(sum(value for value in values if value is not None))


class KedaPolicy:
    """A ScaledObject and its HPA."""

    interval_s = SYNC_S

    def __init__(self, name: str, settings: KedaSettings, limits: Limits) -> None:
        self.name = name
        self._settings = settings
        self._hpa = Hpa(settings.behavior, limits)
        self._poll = Every(settings.poll_s if settings.use_cached_metrics else 0)
        self._answers: tuple[float, ...] = ()

    def decide(self, seen: Observation) -> Orders:
        """What KEDA's HPA writes now."""
        if self._poll.due(seen.now):
            queries = [trigger.query for trigger in self._settings.triggers]
            self._answers = tuple(query_sum(seen.pods, query) for query in queries)
        pods = len(not_terminating(seen.pods))
        proposals = [
            average_value_replicas(answer, trigger.threshold, pods, self._settings.tolerance)
            for trigger, answer in zip(self._settings.triggers, self._answers, strict=True)
        ]
        return self._hpa.follow(seen, largest(proposals, seen.replicas), self.name)

    def wrote(self, before: int, after: int, now: float) -> None:
        """Count a change against the rates."""
        self._hpa.wrote(before, after, now)
