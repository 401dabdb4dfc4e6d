"""Workloads that hold a pod template: Deployment, StatefulSet and LeaderWorkerSet."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

LWS = "LeaderWorkerSet"
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
"""Label of a LeaderWorkerSet's pods: its name."""
LWS_WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
"""Label of a LeaderWorkerSet's pods: their place in the group, 0 for the leader."""
GROUP = ("spec", "leaderWorkerTemplate")
TEMPLATES: dict[tuple[str, str], tuple[str, ...]] = {
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("leaderworkerset.x-k8s.io", LWS): GROUP,
}
"""By (API group, kind): where the pod template is."""
LEADER, WORKER = "leaderTemplate", "workerTemplate"
GRACE_S = 30
"""terminationGracePeriodSeconds where a template names none (Kubernetes)."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload and the template of the pods that serve; both are the document's own parts."""

    kind: str
    namespace: str | None
    name: str
    body: Any
    template: Any
    """Of a LeaderWorkerSet: the leader's; where it has none, the leader is made like a worker."""

    @property
    def spec(self) -> Any:
        """The pod's spec."""
        return self.template.get("spec") or {}

    @property
    def replicas(self) -> int | None:
        """As the manifest asks for; None where it leaves that to others."""
        return whole_number((self.body.get("spec") or {}).get("replicas"), None)

    @property
    def grace_s(self) -> int:
        """Seconds from the deletion of a pod until it is killed."""
        return whole_number(self.spec.get("terminationGracePeriodSeconds"), GRACE_S)

    @property
    def containers(self) -> list[Any]:
        """The containers that run beside each other for the pod's life, sidecars excluded."""
        return mappings(self.spec.get("containers"))

    @property
    def init_containers(self) -> list[Any]:
        """Init containers, the native sidecars among them."""
        return mappings(self.spec.get("initContainers"))

    @property
    def sidecars(self) -> list[Any]:
        """Native sidecars: init containers that are restarted always."""
        return [one for one in self.init_containers if one.get("restartPolicy") == "Always"]

    @property
    def group(self) -> Mapping[str, Any]:
        """What makes the groups of pods of a LeaderWorkerSet; empty for other kinds."""
        group = below(self.body, GROUP)
        return group if isinstance(group, Mapping) else {}

    @property
    def group_size(self) -> int:
        """Pods of one group, its leader among them."""
        return whole_number(self.group.get("size"), 1)

    @property
    def leads_by_worker_template(self) -> bool:
        """Whether leader and workers of a LeaderWorkerSet are made from one template."""
        return self.template is self.group.get(WORKER)

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


def workload_of(document: Any) -> Workload | None:
    """The workload in a document; None where it is of another kind or has no pod template."""
    if not isinstance(document, Mapping):
        return None
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    path = TEMPLATES.get((group, str(document.get("kind"))))
    template = below(document, path) if path else None
    if group != "apps" and isinstance(template, Mapping):
        template = template.get(LEADER) or template.get(WORKER)
    if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
        return None
    meta = document.get("metadata")
    meta = meta if isinstance(meta, Mapping) else {}
    name = str(meta.get("name") or "")
    return Workload(str(document["kind"]), meta.get("namespace"), name, document, template)


def whole_number(value: Any, default: T) -> int | T:
    """A field that holds a whole number; the default where it is left out."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def mappings(value: Any) -> list[Any]:
    """The items of a list that are mappings; none where it is no list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def below(document: Any, path: tuple[str, ...]) -> Any:
    """The value at a path of keys; None where a step of it is missing."""
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document
