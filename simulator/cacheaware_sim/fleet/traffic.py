"""Requests on their way: from the trace through the router into engines, and out of them."""

import math
from collections import deque
from collections.abc import Sequence

from cacheaware_sim.fleet.events import Events, Kind
from cacheaware_sim.fleet.pod import SimPod
from cacheaware_sim.fleet.routing import Router
from cacheaware_sim.fleet.score import Score
from cacheaware_sim.fleet.sent import Sent
from cacheaware_sim.fleet.timeline import Timeline
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.step_result import StepResult
from cacheaware_sim.traces.trace import TraceRequest


class Traffic:
    """Routes requests, drives the engines, counts what ends."""

    def __init__(self, events: Events, router: Router, score: Score, timeline: Timeline) -> None:
        self._events = events
        self._router = router
        self._score = score
        self._timeline = timeline
        self._endpoints: Sequence[SimPod] = ()
        self._held: deque[Sent] = deque()
        """Requests for which no pod serves: they wait at the router."""

    @property
    def endpoints(self) -> Sequence[SimPod]:
        """The pods that get requests."""
        return self._endpoints

    @property
    def held(self) -> int:
        """Requests that wait at the router."""
        return len(self._held)

    def route_to(self, pods: Sequence[SimPod], now: float) -> None:
        """Change the endpoints; what waits for one goes there."""
        self._endpoints = pods
        while self._held and pods:
            self._send(self._held.popleft(), now)

    def arrive(self, request: TraceRequest, now: float) -> None:
        """A client sends a request."""
        self._score.requests += 1
        self._timeline.arrived(request)
        sent = Sent(self._score.requests, request)
        if self._endpoints:
            self._send(sent, now)
        else:
            self._held.append(sent)

    def _send(self, request: Sent, now: float) -> None:
        pod = self._router(self._endpoints, request)
        try:
            pod.driver.submit(request, now)
        except ValueError:
            self._score.lost += 1
            self._score.never_fit += 1
            return
        pod.outstanding += 1
        pod.busy_at = now
        self._set_wake(pod)

    def wake(self, pod: SimPod, now: float) -> None:
        """An iteration of a pod's engine ends, unless that wake was called off."""
        if pod.woken_at != now:
            return
        self._take(pod, pod.driver.advance(now), now)
        pod.woken_at = None
        self._set_wake(pod)

    def _take(self, pod: SimPod, result: StepResult, now: float) -> None:
        self._score.preemptions += len(result.preempted)
        for request in result.first_tokens:
            if isinstance(request, Sent) and request.first_token_at == now:
                self._timeline.answered(now - request.sent_at)
        for request in result.finished:
            if isinstance(request, Sent):
                self._score.ended(request)
        if result.finished:
            pod.outstanding -= len(result.finished)
            pod.busy_at = now

    def _set_wake(self, pod: SimPod) -> None:
        wake_at = pod.driver.wake_at
        if wake_at is not None and wake_at != pod.woken_at:
            self._events.push(wake_at, Kind.WAKE, pod)
        pod.woken_at = wake_at

    def cut(self, pod: SimPod, now: float) -> int:
        """End all requests of a pod; how many are lost by that."""
        cut = len(pod.driver.abort_all(now))
        self._score.lost += cut
        pod.outstanding = 0
        pod.woken_at = None
        return cut

    def pace(self, pod: SimPod, cost: IterationCost, now: float) -> None:
        """Let a pod's iterations take as long as its node makes them."""
        factor = math.prod(pod.slowness)
        pod.driver.set_cost(cost.times(c0=factor, c1=factor, c2=factor, a1=factor, a2=factor), now)
        self._set_wake(pod)
