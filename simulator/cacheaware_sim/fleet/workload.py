"""What a workload's controller and the kubelets do: order pods, start them, delete them, cordon."""

from collections.abc import Callable, Iterable, Sequence

from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.fleet.events import Events, Kind
from cacheaware_sim.fleet.pod import SimPod, Stage, new_pod
from cacheaware_sim.fleet.score import Score
from cacheaware_sim.fleet.traffic import Traffic

LEASE_S = 60.0
"""A cordon that nobody renews ends by itself."""
START_AGE_S = 3600.0
"""The age of the pods that are there when a run begins: none of them is new to anybody."""


class Workload:
    """A Deployment: `replicas` pods, those that terminate beside them.

    Args:
        engine: What runs in each pod.
        grace_s: What a deleted pod has to finish its requests.
        cold_start_s: Tells how long a pod that is ordered now will take to serve.
    """

    def __init__(
        self,
        events: Events,
        traffic: Traffic,
        score: Score,
        *,
        engine: EngineConfig,
        grace_s: float,
        cold_start_s: Callable[[float], float],
    ) -> None:
        self.pods: list[SimPod] = []
        """All that exist, in the order in which they were ordered; terminating ones, too."""
        self.replicas = 0
        self._engine = engine
        self._grace_s = grace_s
        self._cold_start_s = cold_start_s
        self._events = events
        self._traffic = traffic
        self._score = score
        self._numbers = 0
        self._billing = True

    # Replicas

    def begin(self, replicas: int) -> None:
        """So many pods serve from the start, and have for an hour."""
        self.replicas = replicas
        for _ in range(replicas):
            pod = self._add(-START_AGE_S, 0.0)
            pod.stage, pod.since = Stage.SERVING, 0.0
        self._list_endpoints(0.0)

    def scale(self, replicas: int, victims: Iterable[str], now: float) -> None:
        """A write to /scale."""
        self.replicas = replicas
        self.reconcile(now, frozenset(victims))

    def reconcile(self, now: float, victims: frozenset[str] = frozenset()) -> None:
        """Order and delete until there are as many pods as are asked for."""
        there = [pod for pod in self.pods if pod.exists]
        for _ in range(self.replicas - len(there)):
            pod = self._add(now, self._cold_start_s(now))
            self._events.push(pod.ready_at, Kind.READY, pod)
        surplus = max(0, len(there) - self.replicas)
        for pod in deletion_order(there, victims)[:surplus]:
            self._delete(pod, now)

    def _add(self, now: float, cold_start_s: float) -> SimPod:
        self._numbers += 1
        pod = new_pod(self._numbers, self._engine, now, cold_start_s)
        self.pods.append(pod)
        return pod

    # One pod's life

    def ready(self, pod: SimPod, now: float) -> None:
        """A pod has started, unless it was deleted meanwhile."""
        if pod.stage is Stage.STARTING:
            self._move(pod, Stage.SERVING, now)
            self._list_endpoints(now)

    def cordon(self, names: Iterable[str], now: float) -> None:
        """Take pods out of the endpoints, or renew the leases of those that are."""
        wanted = frozenset(names)
        for pod in self.pods:
            if pod.name not in wanted:
                continue
            if pod.stage is Stage.SERVING:
                self._move(pod, Stage.CORDONED, now)
                self._events.push(now + LEASE_S, Kind.LEASE, pod)
            pod.renewed_at = now
        self._list_endpoints(now)

    def uncordon(self, names: Iterable[str], now: float) -> None:
        """Let cordoned pods serve again."""
        wanted = frozenset(names)
        for pod in self.pods:
            if pod.name in wanted and pod.stage is Stage.CORDONED:
                self._move(pod, Stage.SERVING, now)
        self._list_endpoints(now)

    def expire(self, pod: SimPod, now: float) -> None:
        """A cordon's lease may be over."""
        if pod.stage is not Stage.CORDONED:
            return
        ends_at = max(pod.since, pod.renewed_at) + LEASE_S
        if ends_at <= now:
            self.uncordon((pod.name,), now)
        else:
            self._events.push(ends_at, Kind.LEASE, pod)

    def _delete(self, pod: SimPod, now: float) -> None:
        """Give a pod up: with requests it has its grace period to finish them."""
        if not pod.outstanding:
            self.gone(pod, now)
            return
        self._move(pod, Stage.TERMINATING, now)
        self._list_endpoints(now)
        if self._grace_s:
            self._events.push(now + self._grace_s, Kind.KILL, pod)
        else:
            self.kill(pod, now)

    def kill(self, pod: SimPod, now: float) -> None:
        """The grace period is over: what still runs is cut."""
        if pod.stage is Stage.TERMINATING:
            self._score.lost_to_scale_down += self._traffic.cut(pod, now)
            self.gone(pod, now)

    def die(self, pod: SimPod, now: float) -> None:
        """A pod ends with all it has, by nobody's order; another is ordered."""
        self._traffic.cut(pod, now)
        self.gone(pod, now)
        self.reconcile(now)

    def gone(self, pod: SimPod, now: float) -> None:
        """A pod's GPUs are free again."""
        self._move(pod, Stage.GONE, now)
        self.pods.remove(pod)
        self._list_endpoints(now)

    def _list_endpoints(self, now: float) -> None:
        self._traffic.route_to([pod for pod in self.pods if pod.stage is Stage.SERVING], now)

    # The bill

    def _move(self, pod: SimPod, stage: Stage, now: float) -> None:
        self._bill(pod, now)
        pod.stage, pod.since = stage, now

    def _bill(self, pod: SimPod, now: float) -> None:
        if self._billing:
            self._score.pod_seconds[pod.stage] += now - pod.since

    def settle(self, now: float) -> None:
        """Close the bill."""
        for pod in self.pods:
            self._bill(pod, now)
        self._billing = False


def deletion_order(pods: Sequence[SimPod], victims: frozenset[str]) -> list[SimPod]:
    """The order in which a ReplicaSet deletes: not Ready, then by deletion cost, then the youngest.

    Victims are the pods whose deletion cost was lowered. (Kubernetes 1.33, ActivePodsWithRanks in
    pkg/controller/controller_utils.go; a pod that starts is Running there: it loads its model.)
    """
    return sorted(
        pods,
        key=lambda pod: (
            pod.stage is not Stage.SERVING,
            pod.name in victims,
            pod.ordered_at,
            pod.name,
        ),
        reverse=True,
    )
