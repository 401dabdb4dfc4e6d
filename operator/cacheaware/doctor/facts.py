"""What is known of the cluster and of the workload's past; None is unknown, and never zero."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The accelerators of one node that a pod of the workload could run on."""

    name: str
    allocatable: int
    used: int
    """By all pods there, the workload's own among them."""

    @property
    def free(self) -> int:
        """Those that no pod asks for."""
        return max(0, self.allocatable - self.used)


@dataclass(frozen=True, slots=True)
class NodeAutoscaler:
    """The cluster-autoscaler, as far as it can be seen."""

    present: bool | None = None
    """None: not known."""
    grace_cap_s: float | None = None
    """Of --max-graceful-termination-sec; None: its flags can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What rules may know beside the manifest."""

    load_s: float | None = None
    """From a container's start until its engine is healthy, the slowest pod."""
    longest_request_s: float | None = None
    """The 99.9th percentile of whole requests."""
    longest_is_bound: bool = False
    """It fell into the histogram's open bucket: requests take at least so long."""
    requests: float | None = None
    """How many requests that percentile comes from; None: told by hand."""
    replicas: int | None = None
    """As the cluster has it now."""
    running_pods: int | None = None
    """Pods of the workload that hold their GPUs."""
    nodes: tuple[NodeGpus, ...] | None = None
    autoscaler: NodeAutoscaler = NodeAutoscaler()
    kubelet_grace_s: float | None = None
    """What a kubelet that shuts down gives ordinary pods; 0: the feature is off."""
    spot_notice_s: float | None = None
    """How long before a spot node goes it is told; None: no spot nodes, or unknown."""
    budgets: tuple[Any, ...] | None = None
    """PodDisruptionBudgets of the namespace."""
    vertical: tuple[Any, ...] | None = None
    """VerticalPodAutoscalers of the namespace."""
    horizontal: tuple[Any, ...] | None = None
    """HorizontalPodAutoscalers of the namespace."""
    scalers: tuple[Any, ...] | None = None
    """CacheAwareScalers of the namespace."""
    injected: tuple[Any, ...] = ()
    """Containers that running pods have and the template has not: put in at admission."""
    from_cluster: bool = False
    """The cluster was asked; what is unknown now will stay so."""
