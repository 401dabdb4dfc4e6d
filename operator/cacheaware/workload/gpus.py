"""GPUs of one replica, from the workload's manifest: what `maxGpus` counts."""

from collections.abc import Mapping
from typing import Any

from cacheaware.workload.engine import accelerators
from cacheaware.workload.template import LEADER, LWS, WORKER, Workload, mappings, workload_of

WHOLE_GPUS = frozenset({"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"})
"""Resources that count whole GPUs; Intel's plugin has others that count memory or tiles."""


def gpus_per_replica(body: Mapping[str, Any]) -> int | None:
    """GPUs of a pod, or of a whole group; None where the manifest names none.

    A LeaderWorkerSet's replica is a leader and size - 1 workers:

    >>> engine = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}
    >>> group = {"size": 4, "workerTemplate": {"spec": engine}}
    >>> gpus_per_replica({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
    ...                   "spec": {"leaderWorkerTemplate": group}})
    32
    """
    workload = workload_of(body)
    if workload is None:
        return None
    leader = gpus_of(workload.spec)
    return (leader + workers(workload) if workload.kind == LWS else leader) or None


def workers(workload: Workload) -> int:
    """GPUs of a group's workers."""
    template = workload.group.get(WORKER) or workload.group.get(LEADER) or {}
    return (workload.group_size - 1) * gpus_of(template.get("spec") or {})


def gpus_of(spec: Mapping[str, Any]) -> int:
    """GPUs of a pod: those of the containers that run together, or of the largest init container.

    Source: Kubernetes, pod resources with sidecar containers.
    """
    inits = mappings(spec.get("initContainers"))
    beside = [one for one in inits if one.get("restartPolicy") == "Always"]
    before = [one for one in inits if one.get("restartPolicy") != "Always"]
    together = sum(map(whole, [*mappings(spec.get("containers")), *beside]))
    return max([together, *map(whole, before)])


def whole(container: Any) -> int:
    """Whole GPUs that a container asks for."""
    asked = accelerators(container).items()
    return sum(count for name, count in asked if name in WHOLE_GPUS)
