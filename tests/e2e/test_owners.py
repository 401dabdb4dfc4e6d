"""Who else may have a say while we drain: a human, and a second operator."""

import json
import re

import pytest
from tests.e2e.drain.clients import Clients
from tests.e2e.drain.endpoints import watched
from tests.e2e.drain.habits import Setup
from tests.e2e.drain.scenarios import DRAIN, QUICK_DOWN
from tests.e2e.release import Release
from tests.e2e.workload import Fleet, always, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout("300")]

WRITE = re.compile(r"\d+ -> \d+: |cordoned", re.IGNORECASE)
SLOW_DOWN = {
    "scaleDown": {
        "stabilizationWindowSeconds": 20,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 5}],
    }
}


def test_a_human_who_scales_up_during_our_drain_is_not_undone(fleet: Fleet):
    Setup(system=True).start(fleet, 2)
    clients = Clients(fleet, rate=10, at_least=300)
    clients.start()
    clients.hold_streams()
    pods = {pod["metadata"]["name"] for pod in fleet.pods()}
    with watched(fleet) as endpoints:
        fleet.scale_by(minReplicas=1, maxReplicas=4, behavior=SLOW_DOWN, drain=DRAIN)
        eventually(lambda: len(endpoints.ready()) == 1, within=90, every=0.1, what="a cordon")
        (victim,) = pods - endpoints.ready()
        fleet.kubectl("scale", "deployment", fleet.name, "--replicas=3")
        always(lambda: fleet.replicas() == 3, during=15, every=0.5, what="three, as was said")
        assert victim in endpoints.ready(), "the cordon was taken back"
    losses = [part["losses"] for parts in clients.finish().values() for part in parts]
    assert not any(losses)


def test_of_two_operators_only_one_writes(fleet: Fleet, release: Release):
    other = Release(fleet.cluster, namespace="cacheaware-second", name="second")
    fleet.scale_by(minReplicas=1, maxReplicas=3, behavior=QUICK_DOWN, drain=DRAIN)
    Setup(system=True).start(fleet, 1)
    eventually(lambda: fleet.condition("Ready")[0] == "True", within=30, what="the first serves it")
    owner = fleet.get("cacheawarescaler", fleet.name)["metadata"]["annotations"]
    other.install(crds__install="false")
    try:
        clients = Clients(fleet, rate=10, at_least=100)
        clients.start()
        clients.surge(25, streams=100)
        eventually(lambda: fleet.replicas() > 1, within=40, every=0.2, what="it grows")
        clients.finish()
        eventually(lambda: fleet.replicas() == 1, within=120, every=0.5, what="it shrinks")
        mine, theirs = writes(release, fleet), writes(other, fleet)
        print(f"{len(mine)} writes of the first, {len(theirs)} of the second")
        assert mine
        assert theirs == []
        assert fleet.get("cacheawarescaler", fleet.name)["metadata"]["annotations"] == owner
    finally:
        other.uninstall()
        fleet.cluster.kubectl("delete", "namespace", other.namespace, "--wait=false")


def writes(operator: Release, fleet: Fleet) -> list[str]:
    """Lines of an operator's log that tell of a write to the fleet's replicas or pods."""
    lines = [json.loads(line) for line in operator.log(5000).splitlines() if line.startswith("{")]
    about = f"{fleet.namespace}/{fleet.name}: "
    told = [line["message"] for line in lines if line["message"].startswith(about)]
    return [text for text in told if WRITE.search(text)]
