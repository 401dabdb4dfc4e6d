"""The user's wishes on the real cluster: pool, schedule, GPU cap, no room, contest, zero and back.

One fleet takes all wishes that have to do with GPUs, which the node is said to have. Another falls
asleep meanwhile, for that takes half a minute.
"""

import json
import subprocess
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
import yaml
from tests.e2e.release import Release
from tests.e2e.workload import Fleet, always, documents, eventually, shaped

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("sleeper")]

GPU = "nvidia.com/gpu"
GPUS = 5
"""That the node has, and so the pods that fit. As many starts teach when a start is overdue."""
AT_ONCE = {
    "scaleUp": {"policies": [{"type": "Pods", "value": 10, "periodSeconds": 1}]},
    "scaleDown": {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 10, "periodSeconds": 1}],
    },
}
NOW = {"cron": "* * * * *", "durationSeconds": 3600}
"""A schedule that always holds."""
QUIET, CALLS = 'waiting{model="rare"} 0', 'waiting{model="rare"} 3'
FOLDER = "/tmp/page"
PAGE = f"{FOLDER}/metrics"
GATEWAY_IMAGE = "docker.io/cacheaware/mock-engine:dev"


class Gateway:
    """A page that tells how many requests wait: a file behind Python's own server."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        serve = f"mkdir -p {FOLDER} && exec python3 -m http.server 9090 --directory {FOLDER}"
        fleet.kubectl(
            "run", "gateway", f"--image={GATEWAY_IMAGE}", "--image-pull-policy=Never",
            "--port=9090", "--expose", "--command", "--", "sh", "-c", serve,
        )  # fmt: skip
        fleet.kubectl("wait", "--for=condition=Ready", "pod/gateway", "--timeout=60s")
        self.tells(QUIET)

    @property
    def url(self) -> str:
        """As the operator asks for it."""
        return f"http://gateway.{self._fleet.namespace}:9090/metrics"

    def tells(self, page: str | None) -> None:
        """Show this page from now on; without one the answer is 404."""
        change = (
            f"rm {PAGE}" if page is None else f"echo '{page}' > {PAGE}.new; mv {PAGE}.new {PAGE}"
        )
        self._fleet.kubectl("exec", "gateway", "--", "sh", "-c", change)


def new_fleet(release: Release) -> Iterator[Fleet]:
    """A fleet in a namespace of its own, for the tests of this file."""
    cluster, name = release.cluster, f"test-{uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    made = Fleet(cluster, name)
    yield made
    made.end_loads()
    cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@pytest.fixture(scope="module")
def sleeper(release: Release) -> Iterator[tuple[Fleet, Gateway]]:
    """A fleet that nobody asks, and the gateway that would wake it."""
    for fleet in new_fleet(release):
        fleet.start(1, engine=("--cold-start", "1"))
        gateway = Gateway(fleet)
        signal = {
            "url": gateway.url,
            "metric": "waiting",
            "labels": [{"name": "model", "value": "rare"}],
            "idleSeconds": 30,
        }
        fleet.scale_by(minReplicas=0, activation=signal, behavior=AT_ONCE)
        yield fleet, gateway


@pytest.fixture(scope="module")
def node(release: Release) -> Iterator[str]:
    """The node, which is said to have GPUs."""
    kubectl = release.cluster.kubectl
    (one,) = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    name, path = one["metadata"]["name"], GPU.replace("/", "~1")

    def patch(op: str) -> None:
        parts = [
            {"op": op, "path": f"/status/{part}/{path}", "value": str(GPUS)}
            for part in ("capacity", "allocatable")
        ]
        kubectl(
            "patch", "node", name, "--subresource=status", "--type=json", "-p", json.dumps(parts)
        )

    patch("add")
    yield name
    patch("remove")


@pytest.fixture(scope="module")
def with_gpus(release: Release, node: str) -> Iterator[Fleet]:
    """A fleet of pods that take a GPU each; the operator sees every one of its starts."""
    assert node
    for fleet in new_fleet(release):
        fleet.scale_by(**wishes())
        objects = [
            with_gpu(shaped(one, replicas=1, engine=("--cold-start", "1"), sidecar=True))
            for one in documents("kind/mock-engine.yaml")
        ]
        fleet.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
        fleet.wait_ready(1)
        yield fleet


def with_gpu(document: dict[str, Any]) -> dict[str, Any]:
    """The Deployment with a GPU for each pod."""
    if document["kind"] == "Deployment":
        (engine,) = document["spec"]["template"]["spec"]["containers"]
        engine["resources"]["limits"][GPU] = 1
    return document


def wishes(**more: Any) -> dict[str, Any]:
    """A spec that wants nothing but these."""
    none = {"minReplicas": 1, "schedules": None, "warmPool": 0, "maxGpus": None}
    return {"maxReplicas": 12, "behavior": AT_ONCE, **none, **more}


def message(fleet: Fleet) -> str:
    """What the last decision says."""
    conditions = fleet.status().get("conditions") or []
    return next((one["message"] for one in conditions if one["type"] == "Ready"), "")


def limits(fleet: Fleet) -> str:
    """What ScalingLimited says."""
    conditions = fleet.status().get("conditions") or []
    return next((one["message"] for one in conditions if one["type"] == "ScalingLimited"), "")


def events(fleet: Fleet) -> set[str]:
    """Reasons of the events about the scaler."""
    about = "involvedObject.kind=CacheAwareScaler"
    return {one["reason"] for one in fleet.get("events", "--field-selector", about)["items"]}


def names(fleet: Fleet) -> set[str]:
    """Of the pods that are not on their way out."""
    return {pod["metadata"]["name"] for pod in fleet.pods()}


def answered(fleet: Fleet) -> bool:
    """Whether a request to the Service is answered."""
    path = f"/api/v1/namespaces/{fleet.namespace}/services/{fleet.name}:8000/proxy/v1/completions"
    asked = json.dumps({"model": "mock", "prompt": "Good morning", "max_tokens": 5})
    try:
        answer = json.loads(fleet.kubectl("create", "--raw", path, "-f", "-", input=asked))
    except subprocess.CalledProcessError:  # the endpoints follow Ready by a moment
        return False
    return bool(answer["usage"]["completion_tokens"] == 5)


def test_a_warm_pool_keeps_so_many_more_and_is_not_added_to_itself(with_gpus: Fleet):
    with_gpus.scale_by(**wishes(warmPool=2))
    eventually(lambda: with_gpus.replicas() == 2, within=20, what="none for the load and two")
    with_gpus.wait_ready(2)
    always(lambda: with_gpus.replicas() == 2, during=5, what="two")
    assert "needs 0, and 2 for the warm pool" in message(with_gpus)


def test_a_schedule_that_holds_now_is_a_floor_and_max_gpus_is_above_it(with_gpus: Fleet):
    schedules = [NOW | {"minReplicas": GPUS}]
    with_gpus.scale_by(**wishes(schedules=schedules))
    eventually(lambda: with_gpus.replicas() == GPUS, within=20, what="the floor")
    eventually(lambda: "schedule" in limits(with_gpus), within=20, what="the schedule is told")
    with_gpus.wait_ready(GPUS)

    with_gpus.scale_by(**wishes(schedules=schedules, maxGpus=4))
    eventually(lambda: with_gpus.replicas() == 4, within=30, what="four GPUs")
    always(lambda: with_gpus.replicas() == 4, during=4, what="four GPUs")
    eventually(lambda: "maxGpus is 4 and a replica takes 1" in message(with_gpus), within=20)


def test_orders_that_no_node_has_room_for_are_taken_back_and_cost_no_pod(with_gpus: Fleet):
    with_gpus.scale_by(**wishes(schedules=[NOW | {"minReplicas": GPUS}]))
    with_gpus.wait_ready(GPUS)
    serving = names(with_gpus)

    most = []
    with_gpus.scale_by(**wishes(warmPool=GPUS + 2))
    eventually(lambda: with_gpus.replicas() > GPUS, within=20, what="ordered")
    eventually(lambda: "Unschedulable" in message(with_gpus), within=20, what="told")

    def taken_back() -> bool:
        most.append(with_gpus.replicas())
        return most[-1] == GPUS

    eventually(taken_back, within=60, what="taken back")
    assert max(most) <= GPUS + 2, f"no order upon the order: {with_gpus.status()['decisions']}"
    assert serving == names(with_gpus), "those that serve stay"
    eventually(
        lambda: with_gpus.condition("ScalingLimited") == ("True", "PodsUnschedulable"), within=20
    )
    always(lambda: with_gpus.replicas() == GPUS, during=6, what="not ordered again at once")
    assert f"no node has room for more than {GPUS}" in message(with_gpus)
    eventually(lambda: "PodsUnschedulable" in events(with_gpus), within=10, what="an event")


def test_who_sets_the_replicas_back_each_time_is_named_and_not_fought(fleet: Fleet):
    fleet.start(1)
    fleet.scale_by(minReplicas=2, behavior=AT_ONCE)
    for _ in range(3):
        eventually(lambda: fleet.replicas() == 2, within=20, every=0.2, what="two")
        fleet.kubectl("scale", "deployment", fleet.name, "--replicas=1")
    eventually(lambda: fleet.condition("Conflicted") == ("True", "ReplicasContested"), within=20)
    assert "field manager kubectl" in message(fleet)
    always(lambda: fleet.replicas() == 1, during=6, what="not written again")


def test_it_sleeps_while_nobody_asks_wakes_at_a_call_and_stays_at_a_zero_set_by_hand(sleeper):
    fleet, gateway = sleeper
    eventually(lambda: fleet.replicas() == 0, within=90, what="asleep")
    eventually(lambda: fleet.condition("Ready")[1] == "ScaledToZero", within=20)
    assert fleet.status()["scaledToZeroAt"]

    gateway.tells(None)
    eventually(
        lambda: fleet.condition("MetricsAvailable") == ("False", "ActivationUnknown"), within=20
    )
    assert fleet.replicas() == 0

    gateway.tells(CALLS)
    eventually(lambda: fleet.replicas() == 1, within=10, every=0.2, what="woken")
    fleet.wait_ready(1)
    eventually(lambda: answered(fleet), within=10, what="an answer")
    eventually(lambda: "scaledToZeroAt" not in fleet.status(), within=20)

    fleet.kubectl("scale", "deployment", fleet.name, "--replicas=0")
    eventually(lambda: fleet.condition("ScalingActive") == ("False", "Paused"), within=20)
    always(lambda: fleet.replicas() == 0, during=4, what="paused by a person, whoever calls")
