"""Something of a serving pod ends alone: the engine, the sidecar, its metrics, its CPU."""

import subprocess
import time
from typing import Any

import pytest
from tests.e2e.drain.clients import Clients
from tests.e2e.drain.habits import Setup
from tests.e2e.drain.inside import kill_sidecar, shares_processes, throttle_sidecar
from tests.e2e.drain.pod_logs import containers, followed
from tests.e2e.drain.run import LOGS
from tests.e2e.workload import Fleet, always, condition, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout("300")]

KILLABLE = Setup(system=True, change=shares_processes)


def restarts(pod: dict[str, Any], container: str) -> int:
    return next(s["restartCount"] for s in containers(pod) if s["name"] == container)


def lost(clients: Clients) -> list[dict[str, Any]]:
    """The losses of all clients, once they have ended."""
    results = [part for parts in clients.finish().values() for part in parts]
    print([(part["sent"], part["ok"], part["failed"]) for part in results])
    return [loss for part in results for loss in part["losses"]]


def few(fleet: Fleet, at_least: int = 300) -> Clients:
    return Clients(fleet, rate=12, at_least=at_least)


def test_a_sidecar_killed_in_the_middle_of_the_warm_up_warms_up_before_ready(fleet: Fleet):
    setup = Setup(system=True, engine=("--first-shape-stall", "6"), change=shares_processes)
    setup.apply(fleet, 1)
    (pod,) = fleet.pods()
    name = pod["metadata"]["name"]
    eventually(lambda: phase(fleet, name) == "warming", within=60, every=0.2, what="warming")
    kill_sidecar(fleet, name)
    eventually(
        lambda: restarts(fleet.pods()[0], "cacheaware") == 1, within=20, every=0.1, what="restarted"
    )
    assert fleet.ready() == 0
    fleet.wait_ready(1)
    state = fleet.state(name)
    print(state["warmup"])
    assert (state["phase"], state["warmup"]["verdict"]) == ("serving", "Warm")
    assert restarts(fleet.pods()[0], "engine") == 0


def phase(fleet: Fleet, pod: str) -> str:
    """A pod's phase; empty while its sidecar can't be asked."""
    statuses = fleet.get("pod", pod)["status"].get("initContainerStatuses") or [{"started": False}]
    if not statuses[0].get("started"):
        return ""
    try:
        return str(fleet.state(pod)["phase"])
    except subprocess.CalledProcessError:  # its process runs and does not listen yet
        return ""


def test_a_sidecar_killed_while_it_serves_costs_no_request_and_no_second_warm_up(fleet: Fleet):
    KILLABLE.start(fleet, 2)
    clients = few(fleet)
    clients.start()
    name = fleet.pods()[0]["metadata"]["name"]
    kill_sidecar(fleet, name)
    eventually(
        lambda: restarts(fleet.get("pod", name), "cacheaware") == 1, within=20, what="restarted"
    )
    eventually(lambda: condition(fleet.get("pod", name), "Ready") == "True", within=10)
    state = fleet.state(name)
    assert (state["phase"], state["warmup"]["verdict"]) == ("serving", "Warm")
    log = fleet.kubectl("logs", name, "-c", "cacheaware")
    assert "goes on as serving after a restart" in log
    assert "warm-up of engine" not in log
    assert lost(clients) == []


def test_a_sidecar_killed_in_the_middle_of_a_drain_costs_no_request(fleet: Fleet):
    KILLABLE.start(fleet, 2)
    clients = few(fleet)
    clients.start()
    name = fleet.pods()[0]["metadata"]["name"]
    with followed(fleet, LOGS / "sidecar-killed-in-drain"):
        fleet.kubectl("delete", "pod", name, "--wait=false")
        eventually(lambda: phase(fleet, name) == "draining", within=10, every=0.1)
        kill_sidecar(fleet, name)
        fleet.kubectl("wait", "--for=delete", f"pod/{name}", "--timeout=90s")
    assert lost(clients) == []


def test_an_engine_that_its_liveness_probe_ends_starts_over_and_is_warmed_again(fleet: Fleet):
    def watched_by_the_kubelet(spec: dict[str, Any]) -> None:
        spec["containers"][0]["livenessProbe"] = {
            "httpGet": {"path": "/health", "port": "http"},
            "periodSeconds": 2,
            "timeoutSeconds": 1,
            "failureThreshold": 3,
            "initialDelaySeconds": 5,
        }

    Setup(system=True, change=watched_by_the_kubelet).start(fleet, 2)
    clients = few(fleet)
    clients.start()
    name = fleet.pods()[0]["metadata"]["name"]
    began = time.monotonic()
    with followed(fleet, LOGS / "liveness"):
        fleet.fault(name, health="hang")
        eventually(
            lambda: restarts(fleet.get("pod", name), "engine") == 1, within=100, what="restarted"
        )
        print(f"restarted {time.monotonic() - began:.0f} s after its health hung")
        assert restarts(fleet.get("pod", name), "cacheaware") == 0
        eventually(lambda: condition(fleet.get("pod", name), "Ready") == "False", within=10)
        eventually(lambda: condition(fleet.get("pod", name), "Ready") == "True", within=60)
    state = fleet.state(name)
    assert (state["phase"], state["warmup"]["verdict"]) == ("serving", "Warm")
    assert lost(clients) == []


def test_a_frozen_page_and_a_throttled_sidecar_leave_a_serving_pod_ready(fleet: Fleet):
    KILLABLE.start(fleet, 1)
    (pod,) = fleet.pods()
    name = pod["metadata"]["name"]
    since = ready_since(pod)
    fleet.fault(name, metrics="frozen")
    throttle_sidecar(fleet, name, 25)
    fleet.fault(name, metrics="hang")
    always(lambda: fleet.ready() == 1, during=10, what="Ready while the page hangs")
    (pod,) = fleet.pods()
    assert ready_since(pod) == since, "it was Ready all the time"
    assert restarts(pod, "cacheaware") == 0
    assert fleet.state(name)["phase"] == "serving"


def ready_since(pod: dict[str, Any]) -> str:
    (ready,) = [c for c in pod["status"]["conditions"] if c["type"] == "Ready"]
    assert ready["status"] == "True"
    return ready["lastTransitionTime"]
