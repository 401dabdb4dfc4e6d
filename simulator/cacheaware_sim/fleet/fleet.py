"""A fleet of engines under a trace and a policy, in virtual time: the event loop.

What happens at the same moment happens in this order: iterations end, pods are ready or gone,
faults, requests arrive, scrapes, the policy (`events.Kind`). Policies see scrapes only.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.fleet.events import ARRIVALS_AFTER, Events, Kind
from cacheaware_sim.fleet.faults import (
    Fault,
    MetricsStale,
    PodKilled,
    SlowNode,
    SlowStarts,
    WritesRefused,
    lasting,
)
from cacheaware_sim.fleet.pod import SimPod, Stage
from cacheaware_sim.fleet.routing import Router, least_queue
from cacheaware_sim.fleet.score import Score
from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.fleet.timeline import Row, Timeline
from cacheaware_sim.fleet.traffic import Traffic
from cacheaware_sim.fleet.workload import Workload
from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.policies.policy import Limits, Policy
from cacheaware_sim.traces.randomness import stream
from cacheaware_sim.traces.trace import TraceRequest

F = TypeVar("F", bound=Fault)

EPILOGUE_S = 600.0
"""After the last arrival: so long the requests may still take, and nothing is scaled."""
LEAST_COLD_START_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConfig:
    """A workload, and how it is watched and scaled.

    Raises:
        ValueError: One line that names the field, its value and what is allowed.
    """

    engine: EngineConfig
    model: str = "model"
    start_replicas: int = 8
    limits: Limits = field(default_factory=lambda: Limits(1, 40))
    cold_start_s: tuple[float, float] = (60.0, 10.0)
    """Mean and standard deviation of a Gaussian."""
    scrape_s: float = 5.0
    grace_s: float = 30.0
    """What a pod with requests has to finish them when it is deleted; 0: they are cut at once."""
    targets: LatencyTargets = field(default_factory=LatencyTargets)
    faults: tuple[Fault, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.engine.cold_start_s:
            raise ValueError(
                f"engine.cold_start_s {self.engine.cold_start_s}: must be 0, the fleet's is drawn"
            )
        if self.start_replicas != self.limits.clamp(self.start_replicas):
            raise ValueError(
                f"start_replicas {self.start_replicas}: must be "
                f"{self.limits.min_replicas} to {self.limits.max_replicas}, the limits of the run"
            )
        if not self.scrape_s > 0:
            raise ValueError(f"scrape_s {self.scrape_s}: must be above 0")
        if not self.grace_s >= 0:
            raise ValueError(f"grace_s {self.grace_s}: must be at least 0")
        if not min(self.cold_start_s) >= 0:
            raise ValueError(f"cold_start_s {self.cold_start_s}: must be at least 0")


class Fleet:
    """One run. Use it once.

    Args:
        config: The workload.
        policy: What scales it.
        router: How requests find pods.
        on_row: Takes the timeline, a row at each scrape.
    """

    def __init__(
        self,
        config: FleetConfig,
        policy: Policy,
        router: Router = least_queue,
        on_row: Callable[[Row], None] | None = None,
    ) -> None:
        self._config = config
        self._policy = policy
        self._on_row = on_row
        self._events = Events()
        self._timeline = Timeline()
        self.score = Score(config.targets)
        self.traffic = Traffic(self._events, router, self.score, self._timeline)
        self.workload = Workload(
            self._events,
            self.traffic,
            self.score,
            engine=config.engine,
            grace_s=config.grace_s,
            cold_start_s=self._cold_start_s,
        )
        self._starts = stream(config.seed, "cold starts")
        self._picks = stream(config.seed, "faults")
        self._over = False

    def run(self, trace: Iterable[TraceRequest]) -> Score:
        """Play the trace to its end; the bill ends with its last arrival.

        Requests have `EPILOGUE_S` more to end. Those that have not by then are unfinished.
        """
        self._begin()
        now = 0.0
        for request in trace:
            now = request.at
            self._pass(now, ARRIVALS_AFTER)
            self.traffic.arrive(request, now)
        self._pass(now)
        self.workload.settle(now)
        self._over = True
        self._pass(now + EPILOGUE_S)
        return self.score

    def _begin(self) -> None:
        self.workload.begin(self._config.start_replicas)
        self._events.push(self._config.scrape_s, Kind.SCRAPE)
        self._events.push(self._policy.interval_s, Kind.POLICY)
        for fault in self._config.faults:
            if isinstance(fault, PodKilled | SlowNode):
                self._events.push(fault.at, Kind.FAULT, fault)

    def _pass(self, until: float, last: Kind = Kind.POLICY) -> None:
        """All events before a moment, and of those at it the kinds up to `last`."""
        wake = self._wake
        for now, kind, what in self._events.until(until, last):
            if kind == Kind.WAKE:
                wake(what, now)
            else:
                self._handle(Kind(kind), what, now)

    def _handle(self, kind: Kind, what: Any, now: float) -> None:
        if kind is Kind.READY:
            self.workload.ready(what, now)
        elif kind is Kind.KILL:
            self.workload.kill(what, now)
        elif kind is Kind.LEASE:
            self.workload.expire(what, now)
        elif kind is Kind.RECOVER:
            pod, fault = what
            self._recover(pod, fault, now)
        elif not self._over:
            self._control(kind, what, now)

    def _control(self, kind: Kind, what: Any, now: float) -> None:
        """What ends with the trace."""
        if kind is Kind.FAULT:
            self._strike(what, now)
        elif kind is Kind.SCRAPE:
            self._scrape(now)
            self._events.push(now + self._config.scrape_s, Kind.SCRAPE)
        else:
            self._ask(now)
            self._events.push(now + self._policy.interval_s, Kind.POLICY)

    def _wake(self, pod: SimPod, now: float) -> None:
        self.traffic.wake(pod, now)
        if pod.stage is Stage.TERMINATING and not pod.outstanding:
            self.workload.gone(pod, now)

    # What is seen, and what is ordered

    def _scrape(self, now: float) -> None:
        pods, readable = self.workload.pods, not self._lasting(MetricsStale, now)
        for pod in pods:
            if pod.has_engine:
                pod.scrape(now, self._config.model, readable=readable)
        if self._on_row is not None:
            row = self._timeline.row(pods, self.workload.replicas, self.traffic.held, now)
            self._on_row(row)

    def seen(self, now: float) -> Observation:
        """What a policy sees now."""
        pods = tuple(pod.seen(now) for pod in self.workload.pods)
        return Observation(now, self.workload.replicas, pods)

    def _ask(self, now: float) -> None:
        """Let the policy decide, and carry that out: cordons first, then the replicas."""
        orders = self._policy.decide(self.seen(now))
        if orders.uncordons:
            self.workload.uncordon(orders.uncordons, now)
        if orders.cordons:
            self.workload.cordon(orders.cordons, now)
        before = self.workload.replicas
        wanted = self._config.limits.clamp(orders.replicas)
        if wanted == before or self._lasting(WritesRefused, now):
            return
        self.workload.scale(wanted, orders.victims, now)
        self.score.changes.append((now, before, wanted))
        self._policy.wrote(before, wanted, now)

    # Faults

    def _lasting(self, kind: type[F], now: float) -> list[F]:
        return lasting(self._config.faults, kind, now)

    def _cold_start_s(self, now: float) -> float:
        seconds = self._starts.gauss(*self._config.cold_start_s)
        for fault in self._lasting(SlowStarts, now):
            seconds *= fault.factor
        return max(LEAST_COLD_START_S, seconds)

    def _strike(self, fault: PodKilled | SlowNode, now: float) -> None:
        """A fault hits one of the pods that serve; where none does, nothing happens."""
        serving = self.traffic.endpoints
        if not serving:
            return
        pod = serving[self._picks.randrange(len(serving))]
        if isinstance(fault, PodKilled):
            self.workload.die(pod, now)
            return
        pod.slowness.append(fault.factor)
        self.traffic.pace(pod, self._config.engine.cost, now)
        self._events.push(now + fault.seconds, Kind.RECOVER, (pod, fault))

    def _recover(self, pod: SimPod, fault: SlowNode, now: float) -> None:
        if pod.stage is not Stage.GONE:
            pod.slowness.remove(fault.factor)
            self.traffic.pace(pod, self._config.engine.cost, now)
