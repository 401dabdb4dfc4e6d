"""Reads from the cluster what rules want to know; what may not be read stays unknown."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from cacheaware.doctor import measured
from cacheaware.doctor.facts import Facts, NodeAutoscaler
from cacheaware.doctor.targets import selects
from cacheaware.kube import Kube, KubeError
from cacheaware.paths import scalers_path
from cacheaware.pods import PodRecord, pod_record
from cacheaware.workload.template import LWS, LWS_NAME, Workload, workload_of
from cacheaware_sidecar.state import PodState
from cacheaware_sidecar.state_json import StateError, pod_state_from_json

PATHS: Final = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    LWS: "/apis/leaderworkerset.x-k8s.io/v1/namespaces/{}/leaderworkersets",
}
LWS_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
HORIZONTAL = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"
VERTICAL = "/apis/autoscaling.k8s.io/v1/namespaces/{}/verticalpodautoscalers"
NODES, ALL_PODS, ALL_DEPLOYMENTS = "/api/v1/nodes", "/api/v1/pods", "/apis/apps/v1/deployments"
DENIED = frozenset({401, 403})
NODES_ASKED = 5
"""So many kubelets are asked: nodes of one pool are alike."""


async def read_workload(kube: Kube, kind: str, namespace: str, name: str) -> Workload | None:
    """A workload as the cluster has it; None where there is none.

    Raises:
        KubeError: the API failed.
    """
    try:
        body = await kube.get(f"{PATHS[kind].format(namespace)}/{name}")
    except KubeError as error:
        if error.status == 404:
            return None
        raise
    group = PATHS[kind].split("/namespaces")[0].removeprefix("/apis/")
    return workload_of({"apiVersion": group, "kind": kind, **body})


async def read_facts(kube: Kube, workload: Workload, namespace: str) -> Facts:
    """Everything the cluster tells about a workload and its surroundings.

    Raises:
        KubeError: the API failed; what it refuses to show is unknown instead.
    """
    everything = await listed(kube, f"/api/v1/namespaces/{namespace}/pods") or []
    pods = [one for one in everything if belongs(one, workload) and is_alive(one)]
    states = await read_states(kube, pods)
    requests = measured.all_requests(states)
    longest = measured.longest(requests)
    nodes = await listed(kube, NODES)
    live = await read_workload(kube, workload.kind, namespace, workload.name)
    return Facts(
        load_s=measured.slowest_load_s(states),
        longest_request_s=longest and longest[0],
        longest_is_bound=bool(longest and longest[1]),
        requests=requests.count if requests and longest else None,
        replicas=live.replicas if live else None,
        running_pods=sum(bool((one.get("spec") or {}).get("nodeName")) for one in pods),
        nodes=await gpus(kube, workload, nodes),
        autoscaler=await read_autoscaler(kube),
        kubelet_grace_s=await read_kubelets(kube, pods, nodes, workload),
        spot_notice_s=measured.notice_s(nodes or (), workload.spec),
        budgets=known(await listed(kube, BUDGETS.format(namespace))),
        horizontal=known(await listed(kube, HORIZONTAL.format(namespace))),
        vertical=known(await listed(kube, VERTICAL.format(namespace))),
        scalers=known(await listed(kube, scalers_path(namespace))),
        injected=measured.injected(workload.spec, pods),
        from_cluster=True,
    )


def known(found: list[Any] | None) -> tuple[Any, ...] | None:
    """A list that was read; None stays unknown."""
    return None if found is None else tuple(found)


async def listed(kube: Kube, path: str) -> list[Any] | None:
    """All objects of a list; none where the cluster has no such kind, None where it refuses.

    Raises:
        KubeError: the API failed.
    """
    found: list[Any] = []
    try:
        async for page in kube.pages(path):
            found += page.get("items") or ()
    except KubeError as error:
        if error.status == 404:
            return []
        if error.status in DENIED:
            return None
        raise
    return found


def belongs(pod: Mapping[str, Any], workload: Workload) -> bool:
    """Whether a pod is one of the workload's that serve."""
    labels = pod["metadata"].get("labels") or {}
    if workload.kind == LWS:
        return labels.get(LWS_NAME) == workload.name and labels.get(LWS_WORKER) == "0"
    return selects((workload.body.get("spec") or {}).get("selector"), labels)


def is_alive(pod: Mapping[str, Any]) -> bool:
    """Whether a pod neither ends nor has ended."""
    record = pod_record(pod)
    return not record.finished and not record.terminating


async def read_states(kube: Kube, pods: Iterable[Any]) -> list[PodState]:
    """What the sidecars tell, through the API server; pods that don't answer are left out."""
    return await states_of(kube, [pod_record(one) for one in pods])


async def states_of(kube: Kube, records: Iterable[PodRecord]) -> list[PodState]:
    """The same of pods whose records are known."""
    asked = [
        f"/api/v1/namespaces/{one.namespace}/pods/{one.name}:{one.sidecar_port}/proxy/v1/state"
        for one in records
        if one.sidecar_port is not None
    ]
    answers = await asyncio.gather(*(told(kube, path, pod_state_from_json) for path in asked))
    return [one for one in answers if one is not None]


async def told(kube: Kube, path: str, read: Callable[[Any], Any]) -> Any:
    """What one pod or node tells; None where it does not, or not in words that are known."""
    try:
        return read(await kube.get(path))
    except (KubeError, StateError):
        return None


async def gpus(kube: Kube, workload: Workload, nodes: list[Any] | None) -> Any:
    """The accelerators of the nodes; None where the workload wants none, or they can't be read."""
    wanted = measured.wanted_gpu(workload.spec)
    pods = await listed(kube, ALL_PODS) if wanted and nodes is not None else None
    if wanted is None or nodes is None or pods is None:
        return None
    return measured.nodes_of(nodes, pods, wanted, workload.spec)


async def read_autoscaler(kube: Kube) -> NodeAutoscaler:
    """The cluster-autoscaler, if it is a Deployment that may be read."""
    return measured.autoscaler_of(await listed(kube, ALL_DEPLOYMENTS) or ())


async def read_kubelets(
    kube: Kube, pods: Iterable[Any], nodes: list[Any] | None, workload: Workload
) -> float | None:
    """The shortest time that the kubelets of the workload's nodes give pods at a shutdown."""
    own = {str((one.get("spec") or {}).get("nodeName")) for one in pods} - {"None"}
    fitting = [
        one["metadata"]["name"] for one in nodes or () if measured.may_run_on(one, workload.spec)
    ]
    asked = [f"{NODES}/{name}/proxy/configz" for name in (sorted(own) or fitting)[:NODES_ASKED]]
    answers = await asyncio.gather(*(told(kube, path, measured.kubelet_grace_s) for path in asked))
    return min((one for one in answers if one is not None), default=None)
