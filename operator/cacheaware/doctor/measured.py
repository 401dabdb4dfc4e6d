"""What objects of the cluster and the sidecars' states say, as facts."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cacheaware.doctor.disruption import CAP_FLAG, CAP_S, spot_notice_s
from cacheaware.doctor.facts import NodeAutoscaler, NodeGpus
from cacheaware.observe.latency import quantile
from cacheaware.pods import FINISHED
from cacheaware.workload.engine import accelerators, flags_of
from cacheaware_sidecar.engines import Histogram
from cacheaware_sidecar.engines.several import merged
from cacheaware_sidecar.state import PodState

PERCENTILE = 0.999
ENOUGH = 100
"""Fewer requests than this tell nothing of the longest."""
DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
KEEPS_OFF = frozenset({"NoSchedule", "NoExecute"})


def slowest_load_s(states: Iterable[PodState]) -> float | None:
    """The longest time that an engine took to load; None where no sidecar saw one."""
    return max((s.start.loading_s for s in states if s.start.loading_s is not None), default=None)


def all_requests(states: Iterable[PodState]) -> Histogram | None:
    """Whole requests of all pods; those whose buckets differ from the first pod's are left out."""
    found = [s.latency.e2e_s for s in states if s.latency.e2e_s is not None]
    return merged([one for one in found if bounds(one) == bounds(found[0])])


def bounds(histogram: Histogram) -> tuple[float, ...]:
    """The upper bounds of a histogram's buckets."""
    return tuple(bound for bound, _ in histogram.buckets)


def longest(histogram: Histogram | None) -> tuple[float, bool] | None:
    """The 99.9th percentile, and whether it is only a lower bound; None of too few requests."""
    if histogram is None or histogram.count < ENOUGH:
        return None
    zero = Histogram(0.0, 0.0, tuple((bound, 0.0) for bound in bounds(histogram)))
    value = quantile(zero, histogram, PERCENTILE)
    if value is None:
        return None
    finite = [count for bound, count in histogram.buckets if not math.isinf(bound)]
    return round(value, 1), not finite or finite[-1] < PERCENTILE * histogram.count


def nodes_of(
    nodes: Iterable[Any], pods: Iterable[Any], gpu: str, spec: Mapping[str, Any]
) -> tuple[NodeGpus, ...]:
    """The GPUs of the nodes that a pod with this spec may run on."""
    used: dict[str, int] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and (pod.get("status") or {}).get("phase") not in FINISHED:
            used[node] = used.get(node, 0) + gpus_of(pod.get("spec") or {}, gpu)
    return tuple(
        NodeGpus(name, allocatable(node, gpu), used.get(name, 0))
        for node in nodes
        if may_run_on(node, spec) and allocatable(node, gpu)
        for name in [str(node["metadata"]["name"])]
    )


def gpus_of(spec: Mapping[str, Any], gpu: str) -> int:
    """What a pod asks for of one kind of accelerator."""
    sidecars = [o for o in spec.get("initContainers") or () if o.get("restartPolicy") == "Always"]
    containers = [*(spec.get("containers") or ()), *sidecars]
    return sum(accelerators(one).get(gpu, 0) for one in containers)


def allocatable(node: Any, gpu: str) -> int:
    """Accelerators that a node has for pods."""
    count = str(((node.get("status") or {}).get("allocatable") or {}).get(gpu, ""))
    return int(count) if count.isdigit() else 0


def may_run_on(node: Any, spec: Mapping[str, Any]) -> bool:
    """Whether a node is ready and its labels and taints let the pod in; affinity is not read."""
    node_spec, labels = node.get("spec") or {}, node["metadata"].get("labels") or {}
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    wanted = spec.get("nodeSelector") or {}
    taints = [one for one in node_spec.get("taints") or () if one.get("effect") in KEEPS_OFF]
    return (
        ready
        and not node_spec.get("unschedulable")
        and all(labels.get(key) == value for key, value in wanted.items())
        and all(tolerated(taint, spec.get("tolerations") or ()) for taint in taints)
    )


def tolerated(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of the tolerations bears a taint."""
    return any(
        one.get("key") in {None, taint["key"]}
        and one.get("effect") in {None, "", taint["effect"]}
        and (one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", ""))
        for one in tolerations
    )


def notice_s(nodes: Iterable[Any], spec: Mapping[str, Any]) -> float | None:
    """The shortest notice of the spot nodes that a pod may run on; None where there are none."""
    labels = [one["metadata"].get("labels") or {} for one in nodes if may_run_on(one, spec)]
    notices = [spot_notice_s(one) for one in labels]
    return min((one for one in notices if one is not None), default=None)


def autoscaler_of(deployments: Iterable[Any]) -> NodeAutoscaler:
    """The cluster-autoscaler among the Deployments; one that runs elsewhere can't be seen."""
    for body in deployments:
        for container in ((body["spec"].get("template") or {}).get("spec") or {})["containers"]:
            if is_autoscaler(body, container):
                return NodeAutoscaler(present=True, grace_cap_s=cap_s(container))
    return NodeAutoscaler()


def is_autoscaler(body: Any, container: Any) -> bool:
    """Whether a container runs the cluster-autoscaler, by its names or its image."""
    labels = body["metadata"].get("labels") or {}
    names = (labels.get("app"), labels.get("app.kubernetes.io/name"), container.get("name"))
    image = str(container.get("image", "")).rpartition("/")[2]
    return any("cluster-autoscaler" in str(one) for one in (*names, image))


def cap_s(container: Any) -> float | None:
    """Its limit for the grace period; the default where it is not told one."""
    told = flags_of(container).get(CAP_FLAG.removeprefix("--"))
    if told is None:
        return CAP_S
    return float(told) if told.isdigit() else None


def kubelet_grace_s(configz: Mapping[str, Any]) -> float | None:
    """What a kubelet's configuration gives ordinary pods at a node's shutdown; 0: it is off."""
    config = configz.get("kubeletconfig")
    if not isinstance(config, Mapping):
        return None
    total = duration_s(config.get("shutdownGracePeriod", "0s"))
    critical = duration_s(config.get("shutdownGracePeriodCriticalPods", "0s"))
    return None if total is None or critical is None else max(0.0, total - critical)


def duration_s(text: Any) -> float | None:
    """Seconds of a Go duration such as `1m30s`; None for anything else."""
    parts = DURATION.findall(str(text))
    whole = "".join(number + unit for number, unit in parts) == str(text)
    return sum(float(n) * UNITS[unit] for n, unit in parts) if whole and parts else None


def injected(template: Mapping[str, Any], pods: Iterable[Any]) -> tuple[Any, ...]:
    """Containers of running pods that their template does not have."""
    named = {one.get("name") for one in template.get("containers") or ()}
    found = {one["name"]: one for one in all_containers(pods) if one["name"] not in named}
    return tuple(found.values())


def all_containers(pods: Iterable[Any]) -> Iterator[Any]:
    """The ordinary containers of pods."""
    for pod in pods:
        yield from (pod.get("spec") or {}).get("containers") or ()


def wanted_gpu(spec: Mapping[str, Any]) -> str | None:
    """The kind of accelerator that a pod asks for; None for a pod without."""
    asked = [name for one in spec.get("containers") or () for name in accelerators(one)]
    return asked[0] if asked else None
