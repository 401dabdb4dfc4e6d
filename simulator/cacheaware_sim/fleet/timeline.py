"""A run as it went: one row for each scrape interval."""

from collections.abc import Sequence
from dataclasses import dataclass

from cacheaware_sim.fleet.pod import SimPod, Stage
from cacheaware_sim.fleet.quantiles import Quantiles
from cacheaware_sim.traces.trace import TraceRequest


@dataclass(frozen=True, slots=True)
class Row:
    """The fleet at a moment, and what came since the row before."""

    at_s: float
    requests_per_s: float
    tokens_per_s: float
    """Prompt and output tokens of the requests that came."""
    replicas: int
    """What is asked for."""
    starting: int
    serving: int
    cordoned: int
    terminating: int
    running: int
    waiting: int
    """In engines, and at the router while no pod serves."""
    kv_usage: float | None
    """Mean over the pods that serve, 0..1; None without one."""
    ttft_p90_s: float | None
    """Of the requests that got their first token since the row before; None of none."""


class Timeline:
    """Collects what makes the next row."""

    def __init__(self) -> None:
        self._begin(0.0)

    def _begin(self, at: float) -> None:
        self._at = at
        self._requests = 0
        self._tokens = 0
        self._ttft_s = Quantiles()

    def arrived(self, request: TraceRequest) -> None:
        """Count a request that came."""
        self._requests += 1
        self._tokens += request.prompt_tokens + request.output_tokens

    def answered(self, ttft_s: float) -> None:
        """Count a first token."""
        self._ttft_s.add(ttft_s)

    def row(self, pods: Sequence[SimPod], replicas: int, held: int, now: float) -> Row:
        """The row of what came until now; the next one begins."""
        stages = [pod.stage for pod in pods]
        usages = [pod.gauges.usage for pod in pods if pod.stage is Stage.SERVING]
        seconds = now - self._at
        row = Row(
            at_s=now,
            requests_per_s=self._requests / seconds,
            tokens_per_s=self._tokens / seconds,
            replicas=replicas,
            starting=stages.count(Stage.STARTING),
            serving=stages.count(Stage.SERVING),
            cordoned=stages.count(Stage.CORDONED),
            terminating=stages.count(Stage.TERMINATING),
            running=int(sum(pod.gauges.running for pod in pods)),
            waiting=int(sum(pod.gauges.waiting for pod in pods)) + held,
            kv_usage=sum(usages) / len(usages) if usages else None,
            ttft_p90_s=self._ttft_s.at(0.9),
        )
        self._begin(now)
        return row
