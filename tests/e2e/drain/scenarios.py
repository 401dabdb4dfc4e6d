"""The ways in which pods go while clients stream: with the system and without it."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from tests.e2e.drain.clients import Clients
from tests.e2e.drain.endpoints import Endpoints, watched
from tests.e2e.drain.habits import Setup
from tests.e2e.workload import Fleet, always, eventually

STEADY_S = 4.0
"""Load before anything happens."""
QUICK_DOWN = {
    "scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 5}]},
    "scaleDown": {
        "stabilizationWindowSeconds": 5,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 5}],
    },
}
DRAIN = {"sharePercent": 50}


class Scenario(StrEnum):
    """What happens to the pods."""

    SCALE_DOWN = "scale-down to one pod"
    ROLLING_UPDATE = "rolling update"
    EVICTION = "eviction of a pod"
    CALLED_OFF = "drain called off"


@dataclass(slots=True)
class Run:
    """One scenario under load."""

    fleet: Fleet
    setup: Setup
    clients: Clients
    facts: dict[str, Any] = field(default_factory=dict)

    def all_pods(self) -> list[str]:
        """Pods that are there, those that are going included."""
        items = self.fleet.get("pods", "-l", f"app={self.fleet.name}")["items"]
        return [pod["metadata"]["name"] for pod in items]

    def names(self) -> list[str]:
        """Pods that are not going."""
        return [pod["metadata"]["name"] for pod in self.fleet.pods()]


def scale_down(run: Run) -> None:
    """A surge holds all pods; when it is over one pod carries the rest, and the others go."""
    fleet, pods = run.fleet, run.setup.pods
    run.setup.start(fleet, pods)
    run.clients.start()
    if run.setup.system:
        surge = run.clients.surge(20, streams=run.setup.surge_streams)
        fleet.scale_by(minReplicas=1, maxReplicas=pods, behavior=QUICK_DOWN, drain=DRAIN)
        always(lambda: fleet.replicas() == pods, during=10, what="the surge holds all pods")
        surge.result()
    began = time.monotonic()
    if not run.setup.system:
        time.sleep(STEADY_S)
        fleet.kubectl("scale", "deployment", fleet.name, "--replicas=1")
    within = run.setup.shrink_s
    eventually(lambda: len(run.all_pods()) == 1, within=within, every=1, what="one pod is left")
    run.facts["seconds"] = round(time.monotonic() - began, 1)


def rolling_update(run: Run) -> None:
    """`kubectl rollout restart` of all pods."""
    run.setup.start(run.fleet, run.setup.pods)
    run.clients.start()
    time.sleep(STEADY_S)
    restart(run, within=run.setup.rollout_s)


def restart(run: Run, within: float = 240) -> None:
    """Replace all pods; ends when all old ones have gone."""
    fleet, began, old = run.fleet, time.monotonic(), set(run.names())
    fleet.kubectl("rollout", "restart", f"deployment/{fleet.name}")
    fleet.kubectl("rollout", "status", f"deployment/{fleet.name}", f"--timeout={within:g}s")
    eventually(lambda: not old & set(run.all_pods()), within=90, every=1, what="old pods gone")
    run.facts["seconds"] = round(time.monotonic() - began, 1)


def eviction(run: Run) -> None:
    """The Eviction API takes one of two pods, as `kubectl drain` and node autoscalers do."""
    fleet = run.fleet
    run.setup.start(fleet, 2)
    run.clients.start()
    time.sleep(STEADY_S)
    began, victim = time.monotonic(), run.names()[0]
    evict(fleet, victim)
    eventually(lambda: victim not in run.all_pods(), within=90, every=0.5, what="it is gone")
    run.facts["seconds"] = round(time.monotonic() - began, 1)
    fleet.wait_ready(2)


def evict(fleet: Fleet, pod: str) -> None:
    """Evict a pod."""
    order = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": fleet.namespace},
    }
    path = f"/api/v1/namespaces/{fleet.namespace}/pods/{pod}/eviction"
    fleet.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(order))


def called_off(run: Run) -> None:
    """A shrink from two pods to one begins, and the load returns."""
    run.setup.start(run.fleet, 2)
    run.facts["cold_start_s"] = round(max(map(cold_start_s, run.fleet.pods())), 1)
    run.clients.start()
    if run.setup.system:
        with watched(run.fleet) as endpoints:
            uncordoned(run, endpoints)
    else:
        time.sleep(STEADY_S)
        run.fleet.kubectl("scale", "deployment", run.fleet.name, "--replicas=1")
        time.sleep(STEADY_S)
        run.fleet.kubectl("scale", "deployment", run.fleet.name, "--replicas=2")
        run.fleet.wait_ready(2)


def uncordoned(run: Run, endpoints: Endpoints) -> None:
    """The operator cordons one of two; load comes, and that pod serves again before any new one."""
    fleet = run.fleet
    pods = set(run.names())
    run.clients.hold_streams()
    fleet.scale_by(minReplicas=1, maxReplicas=4, behavior=QUICK_DOWN, drain=DRAIN)
    eventually(lambda: len(endpoints.ready()) == 1, within=60, every=0.1, what="a pod is cordoned")
    (victim,) = pods - endpoints.ready()
    assert fleet.state(victim)["phase"] == "cordoned"
    asked = time.time()
    run.clients.surge(20, streams=30)
    back = endpoints.came(victim, after=asked, within=40)
    assert set(run.names()) == pods, "no pod is ordered before the cordoned one is back"
    assert fleet.replicas() >= 2, "the cordoned pod was not given up"
    run.facts["back_s"] = round(back - asked, 1)


def cold_start_s(pod: dict[str, Any]) -> float:
    """Seconds from a pod's creation until it was Ready (whole seconds, as the API tells them)."""
    (ready,) = [c for c in pod["status"]["conditions"] if c["type"] == "Ready"]
    return seconds_between(pod["metadata"]["creationTimestamp"], ready["lastTransitionTime"])


def seconds_between(early: str, late: str) -> float:
    """Between two times of the API."""
    return (datetime.fromisoformat(late) - datetime.fromisoformat(early)).total_seconds()


SCENARIOS: dict[Scenario, Callable[[Run], None]] = {
    Scenario.SCALE_DOWN: scale_down,
    Scenario.ROLLING_UPDATE: rolling_update,
    Scenario.EVICTION: eviction,
    Scenario.CALLED_OFF: called_off,
}
