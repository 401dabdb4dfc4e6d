"""The main job on the real cluster: the fleet follows what the KV caches hold, and nothing else."""

import time

import pytest
from tests.e2e.workload import Fleet, always, eventually

pytestmark = pytest.mark.e2e

BLOCKS = ("--blocks", "256", "--block-size", "16")  # 4,096 tokens a pod
QUICK = ("--cold-start", "2")
LONG = ("--prompt-tokens", "200", "--output-tokens", "600", "--stream")
FAST_UP = {"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}}
FAST_DOWN = {
    "scaleDown": {
        "stabilizationWindowSeconds": 10,
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}],
    }
}
NEVER_DOWN = {"scaleDown": {"stabilizationWindowSeconds": 3600}}


def overload(fleet: Fleet, concurrency: int = 16, seconds: int = 60) -> None:
    fleet.load(
        "--concurrency", str(concurrency), "--requests", "2000", "--duration", str(seconds), *LONG
    )


def decided(fleet: Fleet, reason: str) -> None:
    """A decision is told after it was carried out."""
    eventually(
        lambda: any(one["reason"] == reason for one in fleet.status()["decisions"]),
        within=10,
        what=reason,
    )


def test_it_grows_under_load_within_15_s_and_shrinks_after_the_window(fleet: Fleet):
    fleet.start(1, engine=(*BLOCKS, *QUICK))
    fleet.scale_by(maxReplicas=4, behavior=FAST_UP | FAST_DOWN)
    fleet.wait_ready(1)
    eventually(lambda: fleet.condition("Ready")[0] == "True", within=20, what="scaler Ready")

    first = fleet.pods()[0]["metadata"]["name"]
    overload(fleet, seconds=45)
    eventually(lambda: fleet.state(first)["running"], within=30, what="requests running")
    began = time.monotonic()
    eventually(lambda: fleet.replicas() > 1, within=15, every=0.2, what="more replicas")
    print(f"grew {time.monotonic() - began:.1f} s after the first request ran")
    decided(fleet, "ScaledUp")
    fleet.wait_ready(2)

    eventually(lambda: fleet.replicas() == 1, within=180, every=1, what="back to one replica")
    decided(fleet, "ScaledDown")


def test_advise_decides_and_writes_nothing_but_status(fleet: Fleet):
    fleet.start(1, engine=(*BLOCKS, *QUICK))
    fleet.scale_by(mode="Advise", behavior=FAST_UP | FAST_DOWN)
    fleet.wait_ready(1)
    before = fleet.get("deployment", fleet.name)["metadata"]["generation"]

    overload(fleet, seconds=25)
    eventually(lambda: fleet.status().get("desiredReplicas", 1) > 1, within=30, what="advice")

    after = fleet.get("deployment", fleet.name)
    assert after["metadata"]["generation"] == before
    assert after["spec"]["replicas"] == 1
    assert fleet.status()["currentReplicas"] == 1
    assert not any(
        "cacheaware" in str(pod["metadata"].get("annotations", {})) for pod in fleet.pods()
    )


def test_pods_whose_metrics_vanish_hold_the_fleet(fleet: Fleet):
    fleet.start(2, engine=(*BLOCKS, *QUICK, "--faults"))
    fleet.scale_by(minReplicas=1, behavior=NEVER_DOWN)
    fleet.wait_ready(2)
    eventually(lambda: fleet.condition("MetricsAvailable")[0] == "True", within=20)
    for pod in fleet.pods():
        fleet.fault(pod["metadata"]["name"], metrics="404")
    eventually(lambda: fleet.condition("MetricsAvailable")[0] != "True", within=30)

    fleet.scale_by(minReplicas=1, behavior=FAST_UP | FAST_DOWN)
    always(lambda: fleet.replicas() == 2, during=25, what="two replicas on unknown data")
    assert fleet.ready() == 2, "a serving pod stays Ready although its metrics vanished"

    for pod in fleet.pods():
        fleet.fault(pod["metadata"]["name"])
    eventually(lambda: fleet.replicas() == 1, within=60, what="shrinks once it sees again")


def test_an_hpa_on_the_same_target_stops_our_writes(fleet: Fleet):
    fleet.start(1, engine=(*BLOCKS, *QUICK))
    fleet.kubectl("autoscale", "deployment", fleet.name, "--min=1", "--max=2", "--cpu=70%")
    fleet.scale_by(behavior=FAST_UP | FAST_DOWN)
    fleet.wait_ready(1)
    eventually(lambda: fleet.condition("Conflicted")[0] == "True", within=20)

    overload(fleet, seconds=40)
    always(lambda: fleet.replicas() == 1, during=15, what="no write beside the HPA")

    fleet.kubectl("delete", "hpa", fleet.name)
    eventually(lambda: fleet.replicas() > 1, within=20, what="we take over when it is gone")
    eventually(lambda: fleet.condition("Conflicted")[0] == "False", within=10)


def test_the_operator_killed_in_the_middle_shrinks_nothing(fleet: Fleet, release):
    fleet.start(1, engine=(*BLOCKS, *QUICK))
    fleet.scale_by(
        maxReplicas=3, behavior=FAST_UP | {"scaleDown": {"stabilizationWindowSeconds": 20}}
    )
    fleet.wait_ready(1)
    overload(fleet, seconds=30)
    eventually(lambda: fleet.replicas() >= 2, within=30, what="grown")
    grown = fleet.replicas()
    release.kill_operator()
    release.wait_ready()
    always(lambda: fleet.replicas() >= grown, during=15, what="nothing shrunk by the restart")


def test_most_pods_silent_under_overload_take_one_step_up_and_none_down(fleet: Fleet):
    fleet.start(2, engine=(*BLOCKS, *QUICK, "--faults"))
    fleet.scale_by(
        maxReplicas=8, behavior=FAST_UP | FAST_DOWN | {"scaleUp": {"selectPolicy": "Disabled"}}
    )
    fleet.wait_ready(2)
    overload(fleet, concurrency=40, seconds=70)
    eventually(
        lambda: all(
            (fleet.state(p["metadata"]["name"])["kv"]["usage"] or 0) > 0.8 for p in fleet.pods()
        ),
        within=40,
        what="both pods full",
    )
    for pod in fleet.pods():
        fleet.fault(pod["metadata"]["name"], metrics="hang")
    fleet.scale_by(maxReplicas=8, behavior=FAST_UP | FAST_DOWN)
    eventually(lambda: fleet.replicas() > 2, within=30, what="one step up")
    stepped = fleet.replicas()
    assert stepped <= 2 + 4, "the rate policies bound the step"
    always(lambda: fleet.replicas() == stepped, during=20, what="one step only, and no shrink")


def test_a_namespace_with_a_scaler_goes_within_seconds_while_the_operator_is_away(
    cluster, fleet: Fleet, release
):
    fleet.start(1, engine=QUICK)
    fleet.scale_by()
    eventually(fleet.status, within=20, what="a status")
    scaler = fleet.get("cacheawarescaler", fleet.name)
    assert not scaler["metadata"].get("finalizers")
    release.stop_operator()
    try:
        # Pods first: while one is left the namespace controller looks again only after half its
        # grace period, and that would be measured.
        fleet.kubectl("delete", "deployment", fleet.name, "--cascade=foreground", "--wait=true")
        began = time.monotonic()
        cluster.kubectl("delete", "namespace", fleet.namespace, "--timeout=40s")
        print(f"namespace gone after {time.monotonic() - began:.1f} s")
    finally:
        release.start_operator()
