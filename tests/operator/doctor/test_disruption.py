"""Ends that others bring about."""

import pytest
from tests.operator.doctor.workloads import LABELS, body, engine, one, plain, said, sleep

from cacheaware.doctor.disruption import (
    blocks,
    budget,
    node_autoscaler,
    node_shutdown,
    spot,
    spot_notice_s,
    vertical,
)  # fmt: skip
from cacheaware.doctor.facts import NodeAutoscaler
from cacheaware.doctor.targets import selects
from cacheaware.doctor.unknowns import unknowns

SAFE = {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}


def pdb(name="chat", labels=LABELS, namespace="demo", status=None, **spec):
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, **spec},
        "status": status or {},
    }


@pytest.mark.parametrize(
    ("spec", "replicas", "why"),
    [
        ({"maxUnavailable": 0}, 5, "maxUnavailable 0"),
        ({"maxUnavailable": "0%"}, None, "maxUnavailable 0%"),
        ({"maxUnavailable": 1}, 1, None),
        ({"maxUnavailable": "25%"}, 1, None),
        ({"minAvailable": "100%"}, None, "minAvailable 100%"),
        ({"minAvailable": 1}, 1, "minAvailable 1 of 1"),
        ({"minAvailable": 1}, 2, None),
        ({"minAvailable": 1}, None, None),
        ({"minAvailable": 1}, 0, None),
        ({"minAvailable": "50%"}, 1, "minAvailable 50% of 1"),
        ({"minAvailable": "51%"}, 2, "minAvailable 51% of 2"),
        ({"minAvailable": "50%"}, 2, None),
        ({"minAvailable": "x"}, 2, None),
        ({}, 1, None),
    ],
    ids=str,
)
def test_a_budget_that_never_allows_a_disruption(spec, replicas, why):
    assert blocks(spec, replicas) == why


SCALER = {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "chat"}, "minReplicas": 1}}
NOW = {"disruptionsAllowed": 0, "expectedPods": 3, "currentHealthy": 2}


@pytest.mark.parametrize(
    ("manifest", "facts", "wanted"),
    [
        (body(), {}, []),
        (body(), {"budgets": ()}, [("info", "pdb-missing")]),
        (body(), {"budgets": (pdb(maxUnavailable=1),)}, []),
        (body(), {"budgets": (pdb(labels={"app": "x"}, maxUnavailable=0),)},
         [("info", "pdb-missing")]),
        (body(), {"budgets": (pdb(namespace="x", maxUnavailable=0),)}, [("info", "pdb-missing")]),
        (body(), {"budgets": (pdb(minAvailable=1),)}, [("warning", "pdb-blocks")]),
        (body(replicas=3), {"budgets": (pdb(minAvailable=1),)}, []),
        (body(replicas=3), {"budgets": (pdb(minAvailable=1),), "scalers": (SCALER,)},
         [("warning", "pdb-blocks")]),
        (body(replicas=None), {"budgets": (pdb(minAvailable=1),)}, []),
        (body(replicas=3), {"budgets": (pdb(minAvailable=1, status=NOW),)},
         [("info", "pdb-allows-none-now")]),
        (body(replicas=3), {"budgets": (pdb(maxUnavailable=1), pdb("b", maxUnavailable=1))},
         [("warning", "pdb-overlap")]),
    ],
)  # fmt: skip
def test_budgets_that_block_collide_or_are_missing(manifest, facts, wanted):
    assert said(budget, manifest, **facts) == wanted


def expression(operator, *values, key="app"):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "chat"}}, True),
        ({"matchLabels": {"app": "x"}}, False),
        (expression("In", "chat"), True),
        (expression("In", "x"), False),
        (expression("NotIn", "chat"), False),
        (expression("Exists"), True),
        (expression("Exists", key="y"), False),
        (expression("DoesNotExist", key="y"), True),
        (expression("DoesNotExist"), False),
        (expression("Strange"), True),
    ],
    ids=str,
)
def test_a_selector_selects_as_kubernetes_does(selector, selected):
    assert selects(selector, LABELS) is selected


def test_the_node_autoscaler_caps_the_grace_period(case):
    given = case("054", "input.json")
    assert given["clusterAutoscaler"]["args"] == ["--max-graceful-termination-sec=600"]
    found = one(
        node_autoscaler,
        plain(engine(None), grace=given["terminationGracePeriodSeconds"]),
        longest_request_s=float(given["longestRequestSeconds"]),
        autoscaler=NodeAutoscaler(True, 600.0),
    )
    assert case("054", "expect.json") == {"effective": 600, "finding": True}
    assert (found.id, found.severity) == ("node-autoscaler-cap", "warning")
    assert "min(1800, 600) = 600 s" in found.message
    assert found.message.endswith("take 900 s: 300 s short")
    assert "--max-graceful-termination-sec to 1800" in found.fix
    assert 'safe-to-evict: "false"' in found.fix


@pytest.mark.parametrize(
    ("manifest", "scaler", "longest", "wanted"),
    [
        (body(), NodeAutoscaler(True, 600.0), 900.0, []),
        (body(grace=1800), NodeAutoscaler(True, 600.0), None,
         [("warning", "node-autoscaler-cap")]),
        (body(grace=1800), NodeAutoscaler(True, 600.0), 600.0,
         [("info", "node-autoscaler-cap")]),
        (plain(engine(sleep(15)), grace=1800), NodeAutoscaler(True, 600.0), 600.0,
         [("warning", "node-autoscaler-cap")]),
        (plain(engine({"exec": {"command": ["/x"]}}), grace=1800), NodeAutoscaler(True, 600.0),
         600.0, [("info", "node-autoscaler-cap")]),
        (body(grace=1800), NodeAutoscaler(True, None), 900.0,
         [("info", "node-autoscaler-unknown")]),
        (body(grace=1800), NodeAutoscaler(), 900.0, [("info", "node-autoscaler-unknown")]),
        (body(grace=600), NodeAutoscaler(), 900.0, []),
        (body(grace=1800), NodeAutoscaler(present=False), 900.0, []),
        (body(grace=1800, meta=SAFE), NodeAutoscaler(True, 600.0), 900.0, []),
    ],
)  # fmt: skip
def test_a_cap_that_is_unknown_is_said_to_be(manifest, scaler, longest, wanted):
    found = said(node_autoscaler, manifest, autoscaler=scaler, longest_request_s=longest)
    assert found == wanted


def test_the_default_is_told_where_the_flag_can_not_be_read():
    found = one(node_autoscaler, body(grace=1800))
    assert "is not known; its default is 600 s" in found.message


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({}, []),
        ({"from_cluster": True}, [("info", "kubelet-shutdown-unknown")]),
        ({"kubelet_grace_s": 0.0}, [("info", "kubelet-shutdown-off")]),
        ({"kubelet_grace_s": 60.0}, [("warning", "kubelet-shutdown")]),
        ({"kubelet_grace_s": 180.0}, []),
    ],
    ids=str,
)
def test_a_node_that_shuts_down_waits_as_long_as_it_is_told(facts, wanted):
    assert said(node_shutdown, body(), **facts) == wanted


def on(labels):
    return body(pod={"nodeSelector": labels})


@pytest.mark.parametrize(
    ("manifest", "facts", "found"),
    [
        (body(), {}, False),
        (body(), {"spot_notice_s": 30.0}, True),
        (body(), {"spot_notice_s": 30.0, "longest_request_s": 20.0}, False),
        (body(), {"spot_notice_s": 30.0, "longest_request_s": 40.0}, True),
        (body(), {"spot_notice_s": 180.0}, False),
        (on({"karpenter.sh/capacity-type": "spot"}), {}, True),
        (on({"karpenter.sh/capacity-type": "on-demand"}), {}, False),
    ],
)
def test_spot_nodes_go_at_short_notice(manifest, facts, found):
    assert said(spot, manifest, **facts) == ([("warning", "spot-notice")] if found else [])


@pytest.mark.parametrize(
    ("labels", "seconds"),
    [
        ({"cloud.google.com/gke-spot": "true"}, 25.0),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, 120.0),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, 30.0),
        ({}, None),
    ],
)
def test_the_notice_is_the_clouds(labels, seconds):
    assert spot_notice_s(labels) == seconds


def vpa(mode=None, name="chat"):
    policy = {"updatePolicy": {"updateMode": mode}} if mode else {}
    spec = {"targetRef": {"kind": "Deployment", "name": name}, **policy}
    return {"metadata": {"name": "v"}, "spec": spec}


@pytest.mark.parametrize(
    ("body_", "found"),
    [
        (vpa(), True), (vpa("Auto"), True), (vpa("Recreate"), True),
        (vpa("InPlaceOrRecreate"), True), (vpa("Initial"), False), (vpa("Off"), False),
        (vpa("Auto", "other"), False),
    ],
)  # fmt: skip
def test_a_vertical_autoscaler_may_evict(body_, found):
    assert said(vertical, body(), vertical=(body_,)) == (
        [("warning", "vpa-evicts")] if found else []
    )


def test_what_only_a_cluster_tells_is_said_once():
    found = one(unknowns, body())
    assert (found.id, found.severity) == ("not-checked", "info")
    assert "PodDisruptionBudgets, VerticalPodAutoscalers" in found.message
    assert "cacheaware doctor deployment/chat" in found.fix
    some = one(unknowns, body(), budgets=(), vertical=())
    assert "PodDisruptionBudgets" not in some.message
    assert said(unknowns, body(), from_cluster=True) == []
