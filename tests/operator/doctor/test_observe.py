"""What is read of a cluster, and what stays unknown where it refuses."""

import copy

import pytest
from tests.operator.doctor.test_measured import node
from tests.operator.doctor.workloads import body, engine, sidecar

from cacheaware.doctor.facts import Facts, NodeAutoscaler, NodeGpus
from cacheaware.doctor.observe import listed, read_facts, read_workload
from cacheaware.kube import KubeError

PODS = "/api/v1/namespaces/demo/pods"
STATE = {
    "schema": 1,
    "phase": "serving",
    "start": {"loading_s": 42.0},
    "latency": {
        "e2e_s": {"count": 1000, "sum": 1, "buckets": [[8, 0], [16, 1000], ["+Inf", 1000]]}
    },
}
GPUS = engine(resources={"limits": {"nvidia.com/gpu": "1"}})


class FakeKube:
    """Answers by path; a number is a status that refuses, a missing path a 404."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    async def get(self, path, query=None, **limits):
        self.asked.append(path)
        found = self.answers.get(path, 404)
        if isinstance(found, int):
            raise KubeError(found, "Refused")
        return found

    async def pages(self, path, query=None):
        yield await self.get(path, query)


def items(*found):
    return {"items": list(found)}


def pod(name="chat-1", labels=None, on="n1", **meta):
    return {
        "metadata": {"name": name, "uid": name, "namespace": "demo",
                     "labels": labels or {"app": "chat"}, **meta},
        "spec": {"nodeName": on, "initContainers": [sidecar()],
                 "containers": [GPUS, {"name": "istio-proxy"}]},
        "status": {"phase": "Running"},
    }  # fmt: skip


def cluster(**changed):
    answers = {
        "/apis/apps/v1/namespaces/demo/deployments/chat": body(GPUS, replicas=3),
        PODS: items(
            pod(), pod("chat-2", deletionTimestamp="2026-01-01T00:00:00Z"),
            pod("other", labels={"app": "x"}),
        ),
        f"{PODS}/chat-1:9440/proxy/v1/state": STATE,
        "/api/v1/nodes": items(node(labels={"cloud.google.com/gke-spot": "true"})),
        "/api/v1/pods": items(pod()),
        "/api/v1/nodes/n1/proxy/configz": {"kubeletconfig": {"shutdownGracePeriod": "30s"}},
        "/apis/apps/v1/deployments": items(),
        "/apis/policy/v1/namespaces/demo/poddisruptionbudgets": items({"spec": {}}),
        "/apis/autoscaling/v2/namespaces/demo/horizontalpodautoscalers": items(),
    }  # fmt: skip
    return FakeKube({**answers, **changed})


async def facts(kube, kind="Deployment"):
    workload = await read_workload(kube, kind, "demo", "chat")
    return await read_facts(kube, workload, "demo")


async def test_everything_that_the_cluster_tells_is_taken():
    assert await facts(cluster()) == Facts(
        load_s=42.0,
        longest_request_s=16.0,
        requests=1000,
        replicas=3,
        running_pods=1,
        nodes=(NodeGpus("n1", 4, 1),),
        autoscaler=NodeAutoscaler(),
        kubelet_grace_s=30.0,
        spot_notice_s=25.0,
        budgets=({"spec": {}},),
        horizontal=(),
        vertical=(),
        scalers=(),
        injected=({"name": "istio-proxy"},),
        from_cluster=True,
    )


@pytest.mark.parametrize(
    ("path", "field", "unknown"),
    [
        ("/api/v1/nodes", "nodes", None),
        ("/api/v1/pods", "nodes", None),
        ("/apis/policy/v1/namespaces/demo/poddisruptionbudgets", "budgets", None),
        ("/apis/autoscaling/v2/namespaces/demo/horizontalpodautoscalers", "horizontal", None),
        ("/api/v1/nodes/n1/proxy/configz", "kubelet_grace_s", None),
        ("/apis/apps/v1/deployments", "autoscaler", NodeAutoscaler()),
        (PODS, "load_s", None),
        (f"{PODS}/chat-1:9440/proxy/v1/state", "longest_request_s", None),
    ],
)
async def test_what_may_not_be_read_is_unknown(path, field, unknown):
    assert getattr(await facts(cluster(**{path: 403})), field) == unknown


async def test_a_sidecar_that_speaks_nonsense_is_no_failure():
    kube = cluster(**{f"{PODS}/chat-1:9440/proxy/v1/state": {"schema": 99}})
    assert (await facts(kube)).load_s is None


async def test_a_failing_cluster_is_a_failure():
    with pytest.raises(KubeError):
        await listed(cluster(**{"/api/v1/nodes": 500}), "/api/v1/nodes")
    with pytest.raises(KubeError):
        await read_workload(
            cluster(**{"/apis/apps/v1/namespaces/demo/deployments/chat": 500}),
            "Deployment", "demo", "chat",
        )  # fmt: skip


async def test_a_workload_that_is_not_there_is_none():
    assert await read_workload(cluster(), "StatefulSet", "demo", "chat") is None


async def test_a_pod_without_a_sidecar_is_not_asked():
    bare = pod()
    del bare["spec"]["initContainers"]
    kube = cluster(**{PODS: items(bare)})
    assert (await facts(kube)).load_s is None
    assert not any("proxy/v1/state" in path for path in kube.asked)


async def test_a_workload_without_gpus_asks_for_no_pods_of_others():
    kube = cluster(**{"/apis/apps/v1/namespaces/demo/deployments/chat": body()})
    assert (await facts(kube)).nodes is None
    assert "/api/v1/pods" not in kube.asked


async def test_before_there_are_pods_a_fitting_nodes_kubelet_is_asked():
    kube = cluster(**{PODS: items()})
    assert (await facts(kube)).kubelet_grace_s == 30.0
    assert (await facts(cluster(**{PODS: items(), "/api/v1/nodes": 403}))).kubelet_grace_s is None


async def test_of_a_group_only_leaders_serve():
    manifest = copy.deepcopy(body(kind="LeaderWorkerSet"))
    name = "leaderworkerset.sigs.k8s.io"
    leader = pod("a", {f"{name}/name": "chat", f"{name}/worker-index": "0"})
    worker = pod("b", {f"{name}/name": "chat", f"{name}/worker-index": "1"})
    path = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/demo/leaderworkersets/chat"
    kube = cluster(**{path: manifest, PODS: items(leader, worker)})
    assert (await facts(kube, "LeaderWorkerSet")).running_pods == 1


async def test_a_manifest_that_is_not_applied_has_no_replicas_in_the_cluster():
    kube = cluster()
    workload = await read_workload(kube, "Deployment", "demo", "chat")
    del kube.answers["/apis/apps/v1/namespaces/demo/deployments/chat"]
    assert (await read_facts(kube, workload, "demo")).replicas is None
