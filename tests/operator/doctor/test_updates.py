"""Rolling updates: GPUs at their peak, pods that go, and the deadline of progress."""

import pytest
import yaml
from tests.operator.doctor.workloads import body, engine, one, plain, said, sidecar, subject

from cacheaware.doctor.capacity import Surge, capacity, surge_of
from cacheaware.doctor.facts import NodeAutoscaler, NodeGpus
from cacheaware.doctor.rollout import Rolling, rolling_of, rollout, warmup_s

LWS = "LeaderWorkerSet"


def gpus(count):
    return engine(resources={"limits": {"nvidia.com/gpu": str(count)}})


def rolling(surge, unavailable):
    return {"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}


def nodes(*pairs):
    return tuple(NodeGpus(f"g{at}", have, used) for at, (have, used) in enumerate(pairs))


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "found"),
    [
        ("25%", "25%", 1, (1, 0)),
        ("25%", "25%", 4, (1, 1)),
        ("25%", "25%", 10, (3, 2)),
        ("0%", "25%", 1, (0, 1)),
        (0, 1, 1, (0, 1)),
        (1, 0, 3, (1, 0)),
        ("x%", "x", 4, (0, 1)),
    ],
)
def test_surge_rounds_up_and_unavailability_down(surge, unavailable, replicas, found):
    assert Rolling(surge, unavailable, "").at(replicas) == found


def test_the_default_update_needs_twice_the_gpus_of_one_replica(case):
    manifest = yaml.safe_load(case("042", "input.deployment.yaml"))
    (node,) = case("042", "input.nodes.json")
    found = one(
        capacity, manifest, nodes=(NodeGpus(node["node"], node["gpuAllocatable"], node["gpuUsed"]),)
    )
    assert case("042", "expect.json") == {"peak_gpus": 4, "free_gpus": 0, "finding": True}
    assert (found.id, found.severity) == ("surge-without-gpus", "error")
    assert "(1 + 1) x 2 = 4 GPUs" in found.message
    assert "2 exist, 0 are free" in found.message


def test_the_way_out_states_its_downtime():
    found = one(capacity, body(gpus(2)), nodes=nodes((2, 2)), load_s=400.0)
    assert found.fix == (
        "set strategy.rollingUpdate.maxSurge to 0 and maxUnavailable to 1 (nothing serves while a"
        " pod drains, and then for 400 s to load and up to 120 s to warm up), or keep 2 GPUs spare"
    )
    many = one(capacity, body(gpus(2), replicas=3, **rolling(1, 0)), nodes=nodes((6, 6)))
    assert "(2 of 3 serve meanwhile)" in many.fix
    cold = one(capacity, plain(gpus(2)), nodes=nodes((2, 2)), load_s=400.0)
    assert "for 400 s to load), or" in cold.fix


@pytest.mark.parametrize(
    ("manifest", "facts", "wanted"),
    [
        (body(gpus(2)), {}, [("info", "surge-gpus-unknown")]),
        (body(gpus(2)), {"nodes": nodes((4, 2))}, []),
        (body(gpus(2)), {"nodes": nodes((2, 2), (2, 0))}, []),
        (body(gpus(2)), {"nodes": nodes((2, 1), (2, 1))}, [("error", "surge-without-gpus")]),
        (body(gpus(2)), {"nodes": nodes((4, 0)), "running_pods": 0}, []),
        (body(gpus(2)), {"nodes": nodes((4, 2)), "running_pods": 0},
         [("error", "surge-without-gpus")]),
        (body(gpus(2)), {"nodes": ()}, [("error", "surge-without-gpus")]),
        (body(gpus(2)), {"nodes": nodes((2, 2)), "autoscaler": NodeAutoscaler(present=True)},
         [("warning", "surge-needs-node")]),
        (body(gpus(2), replicas=4), {"nodes": nodes((8, 8))}, []),
        (body(gpus(2), **rolling(0, 1)), {"nodes": nodes((2, 2))}, []),
        (body(gpus(2), **rolling(0, 0)), {"nodes": nodes((2, 2))}, []),
        (body(gpus(2), replicas=0), {"nodes": nodes((2, 2))}, []),
        (body(gpus(2), replicas=None), {"nodes": nodes((2, 2))},
         [("error", "surge-without-gpus")]),
        (body(gpus(2)), {"nodes": nodes((8, 8)), "replicas": 4}, []),
        (body(), {"nodes": ()}, []),
        (body(gpus(2), kind="StatefulSet"), {"nodes": ()}, []),
        (body(gpus(2), strategy={"type": "Recreate"}), {"nodes": ()}, []),
        (body(gpus(2), kind=LWS), {"nodes": nodes((4, 4))}, []),
    ],
)  # fmt: skip
def test_a_new_pod_needs_gpus_only_where_no_old_one_may_go(manifest, facts, wanted):
    assert said(capacity, manifest, **facts) == wanted


def test_a_group_counts_with_its_workers_over_all_nodes():
    grown = {
        "rolloutStrategy": {"rollingUpdateConfiguration": {"maxSurge": 1, "maxUnavailable": 0}}
    }
    worker = {"workerTemplate": {"spec": {"containers": [gpus(3)]}}, "size": 3}
    manifest = body(gpus(2), kind=LWS, group=worker, **grown)
    looked = subject(manifest)
    assert surge_of(looked, rolling_of(looked)) == Surge(1, 1, 0, 8)
    assert said(capacity, manifest, nodes=nodes((8, 4), (8, 4))) == []
    assert said(capacity, manifest, nodes=nodes((8, 5), (8, 4))) == [
        ("error", "surge-without-gpus")
    ]


def test_only_a_deployment_and_a_group_roll_by_surge():
    assert rolling_of(subject(body(kind="StatefulSet"))) is None
    assert rolling_of(subject(body(strategy={"type": "Recreate"}))) is None
    assert rolling_of(subject(body(kind=LWS))) == Rolling(
        0, 1, "rolloutStrategy.rollingUpdateConfiguration"
    )


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (body(), []),
        (body(**rolling(0, 0)), [("error", "rollout-both-zero")]),
        (body(**rolling("0%", 0)), [("error", "rollout-both-zero")]),
        (body(**rolling(0, 1)), [("info", "rollout-downtime")]),
        (body(**rolling(1, 1)), []),
        (body(**rolling(0, 1), replicas=2), []),
        (body(**rolling(0, "100%"), replicas=2), [("warning", "rollout-takes-all")]),
        (body(**rolling(1, 2), replicas=2), [("warning", "rollout-takes-all")]),
        (body(strategy={"type": "Recreate"}), [("warning", "strategy-recreate")]),
        (body(kind="StatefulSet"), []),
        (body(kind=LWS, replicas=2), []),
    ],
)
def test_an_update_begins_and_leaves_pods_that_serve(manifest, wanted):
    assert said(rollout, manifest) == wanted


@pytest.mark.parametrize(
    ("manifest", "load", "wanted"),
    [
        (body(), 479, []),
        (body(), 480, [("warning", "progress-deadline")]),
        (plain(), 599, []),
        (plain(), 600, [("warning", "progress-deadline")]),
        (body(progressDeadlineSeconds=1200), 1000, []),
        (body(minReadySeconds=100), 400, [("warning", "progress-deadline")]),
        (body(engine(startupProbe={"failureThreshold": 60})), None,
         [("info", "progress-deadline-unknown")]),
        (body(engine(startupProbe={"failureThreshold": 30})), None, []),
        (body(engine(startupProbe={"failureThreshold": 60})), 100, []),
        (body(kind="StatefulSet"), 5000, []),
    ],
)  # fmt: skip
def test_progress_needs_the_time_to_load_and_warm_up(manifest, load, wanted):
    assert said(rollout, manifest, load_s=load) == wanted


def test_the_deadline_to_set_has_a_margin():
    found = one(rollout, body(), load_s=880.0)
    assert "880 s to load + 120 s to warm up + minReadySeconds 0" in found.message
    assert found.fix == "set progressDeadlineSeconds to 1200"


@pytest.mark.parametrize(
    ("side", "seconds"),
    [
        (None, 0),
        (sidecar(), 120),
        (sidecar(env={"WARMUP": "off"}), 0),
        (sidecar(env={"WARMUP_BUDGET_SECONDS": "30"}), 30),
        (sidecar(env={"WARMUP_BUDGET_SECONDS": {"valueFrom": {}}}), 120),
        (sidecar(env={"PORT": "x"}), 120),
    ],
)
def test_the_budget_of_the_warmup_is_the_sidecars(side, seconds):
    assert warmup_s(subject(body(side=side))) == seconds
