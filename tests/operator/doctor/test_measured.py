"""What objects of the cluster and states of sidecars say."""

import math

import pytest

from cacheaware.doctor.facts import NodeAutoscaler, NodeGpus
from cacheaware.doctor.measured import (
    all_requests,
    autoscaler_of,
    cap_s,
    duration_s,
    injected,
    kubelet_grace_s,
    longest,
    may_run_on,
    nodes_of,
    notice_s,
    slowest_load_s,
    wanted_gpu,
)  # fmt: skip
from cacheaware_sidecar.engines import Histogram
from cacheaware_sidecar.state import Latency, PodState, StartState

GPU = "nvidia.com/gpu"


def state(loading=None, e2e=None):
    return PodState(
        phase="serving", start=StartState(loading_s=loading), latency=Latency(e2e_s=e2e)
    )


def histogram(*counts, bounds=(1.0, 10.0, math.inf)):
    return Histogram(counts[-1], 0.0, tuple(zip(bounds, counts, strict=True)))


def test_the_slowest_load_counts():
    assert slowest_load_s([state(), state(40.0), state(60.0)]) == 60.0
    assert slowest_load_s([state()]) is None


def test_requests_of_all_pods_are_one_histogram():
    merged = all_requests([state(e2e=histogram(1, 2, 3)), state(), state(e2e=histogram(1, 1, 1))])
    assert merged == Histogram(4, 0.0, ((1.0, 2), (10.0, 3), (math.inf, 4)))
    assert all_requests([state()]) is None


def test_a_pod_with_other_buckets_is_left_out():
    other = histogram(9, 9, bounds=(2.0, math.inf))
    assert all_requests([state(e2e=histogram(1, 2, 3)), state(e2e=other)]).count == 3


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        (None, None),
        ((99, 99, 99), None),
        ((100, 100, 100), (1.0, False)),
        ((0, 1000, 1000), (10.0, False)),
        ((900, 1000, 1000), (9.9, False)),
        ((0, 998, 1000), (10.0, True)),
    ],
)
def test_the_longest_requests_are_the_percentile_or_a_bound(counts, found):
    assert longest(histogram(*counts) if counts else None) == found


def test_a_histogram_of_one_open_bucket_tells_only_a_bound():
    assert longest(Histogram(100, 0.0, ((math.inf, 100),))) == (0.0, True)
    assert longest(Histogram(100, 0.0, ())) is None


def node(name="n1", gpus="4", ready="True", labels=None, taints=(), **spec):
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints), **spec},
        "status": {
            "allocatable": {GPU: gpus} if gpus else {},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(on, gpus, phase="Running"):
    container = {"name": "e", "resources": {"limits": {GPU: str(gpus)}}}
    spec = {"containers": [container], **({"nodeName": on} if on else {})}
    return {"spec": spec, "status": {"phase": phase}}


def test_free_gpus_are_those_that_no_pod_asks_for():
    pods = [pod("n1", 2), pod("n1", 1), pod("n1", 1, "Succeeded"), pod(None, 4), pod("n2", 9)]
    nodes = [node(), node("n2"), node("n3", gpus=""), node("n4", ready="False")]
    found = nodes_of(nodes, pods, GPU, {})
    assert found == (NodeGpus("n1", 4, 3), NodeGpus("n2", 4, 9))
    assert [one.free for one in found] == [1, 0]


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("one", "spec", "may"),
    [
        (node(), {}, True),
        (node(ready="Unknown"), {}, False),
        (node(unschedulable=True), {}, False),
        (node(labels={"a": "b"}), {"nodeSelector": {"a": "b"}}, True),
        (node(), {"nodeSelector": {"a": "b"}}, False),
        (node(taints=[TAINT]), {}, False),
        (node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), {}, True),
        (node(taints=[TAINT]), {"tolerations": [{"operator": "Exists"}]}, True),
        (node(taints=[TAINT]), {"tolerations": [{"key": "gpu", "operator": "Exists"}]}, True),
        (node(taints=[TAINT]), {"tolerations": [{"key": "gpu", "value": "yes"}]}, True),
        (node(taints=[TAINT]), {"tolerations": [{"key": "gpu", "value": "no"}]}, False),
        (node(taints=[TAINT]), {"tolerations": [{"key": "x", "operator": "Exists"}]}, False),
        (node(taints=[TAINT]),
         {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}, False),
    ],
)  # fmt: skip
def test_labels_and_taints_let_a_pod_in_or_not(one, spec, may):
    assert may_run_on(one, spec) is may


def test_the_shortest_notice_of_the_nodes_counts():
    spot = node(labels={"karpenter.sh/capacity-type": "spot"})
    gke = node(labels={"cloud.google.com/gke-spot": "true"})
    assert notice_s([node(), spot, gke], {}) == 25.0
    assert notice_s([node()], {}) is None
    assert notice_s([{**gke, "spec": {"unschedulable": True}}], {}) is None


def deployment(name="x", labels=None, **container):
    spec = {"template": {"spec": {"containers": [{"name": name, **container}]}}}
    return {"metadata": {"labels": labels or {}}, "spec": spec}


@pytest.mark.parametrize(
    ("found", "autoscaler"),
    [
        (deployment("cluster-autoscaler"), NodeAutoscaler(True, 600.0)),
        (deployment(image="registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.0"),
         NodeAutoscaler(True, 600.0)),
        (deployment(labels={"app": "cluster-autoscaler"}), NodeAutoscaler(True, 600.0)),
        (deployment("nginx"), NodeAutoscaler()),
    ],
)  # fmt: skip
def test_the_cluster_autoscaler_is_found_by_its_names(found, autoscaler):
    assert autoscaler_of([found]) == autoscaler


@pytest.mark.parametrize(
    ("args", "seconds"),
    [
        ([], 600.0),
        (["--max-graceful-termination-sec=1800"], 1800.0),
        (["--max-graceful-termination-sec", "1800"], 1800.0),
        (["--max-graceful-termination-sec=$(CAP)"], None),
    ],
)
def test_its_cap_is_its_flag_or_the_default_or_unknown(args, seconds):
    assert cap_s({"command": ["./cluster-autoscaler", *args]}) == seconds


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        ({}, None),
        ({"kubeletconfig": {}}, 0.0),
        ({"kubeletconfig": {"shutdownGracePeriod": "0s"}}, 0.0),
        ({"kubeletconfig": {"shutdownGracePeriod": "1m30s",
                            "shutdownGracePeriodCriticalPods": "10s"}}, 80.0),
        ({"kubeletconfig": {"shutdownGracePeriod": "soon"}}, None),
        ({"kubeletconfig": {"shutdownGracePeriodCriticalPods": "soon"}}, None),
    ],
    ids=str,
)  # fmt: skip
def test_a_kubelet_tells_what_it_gives_pods(config, seconds):
    assert kubelet_grace_s(config) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30.0), ("1h1m", 3660.0), ("500ms", 0.5), ("0s", 0.0), ("5", None), ("", None),
     ("5s x", None), (None, None)],
)  # fmt: skip
def test_go_durations_are_read(text, seconds):
    assert duration_s(text) == seconds


def test_what_admission_added_is_what_the_template_has_not():
    pods = [{"spec": {"containers": [{"name": "engine"}, {"name": "istio-proxy"}]}}] * 2
    assert injected({"containers": [{"name": "engine"}]}, pods) == ({"name": "istio-proxy"},)


def test_the_kind_of_accelerator_is_that_of_the_template():
    assert wanted_gpu(pod("n", 1)["spec"]) == GPU
    assert wanted_gpu({"containers": [{"name": "e"}]}) is None
    assert wanted_gpu({}) is None
