"""Takes everything out again that inject has put in, and brings back what was there before."""

from copy import deepcopy
from typing import Any

from cacheaware.doctor.sidecar import READINESS, is_ours, mounts_of
from cacheaware.inject.mesh import included_again
from cacheaware.inject.pod import SHARED_DIR, VOLUMES
from cacheaware.inject.record import ANNOTATION, Record, record_of
from cacheaware.workload.hooks import HookKind, hook_of
from cacheaware.workload.template import Workload, workload_of


def removed(body: Any) -> Any:
    """A workload without the sidecar and all that came with it; the same where it has none.

    One that carries a sidecar which somebody wrote by hand loses that and its hook; a grace period
    stays as it is, because nobody knows what it was.

    Raises:
        RecordError: the annotation is not what inject wrote.
    """
    record, workload = record_of(body), workload_of(deepcopy(body))
    if workload is None or (record is None and not sidecars(workload)):
        return body
    Removal(workload, record or Record(), by_hand=record is None).run()
    return workload.body


def sidecars(workload: Workload) -> list[Any]:
    """The sidecar, wherever it stands."""
    return [one for one in [*workload.init_containers, *workload.containers] if is_ours(one)]


class Removal:
    """The steps of taking a sidecar out of a workload's own copy."""

    def __init__(self, workload: Workload, record: Record, *, by_hand: bool) -> None:
        self.workload = workload
        self.record = record
        self.spec = workload.template["spec"]
        self.ours = sidecars(workload)
        self.by_hand = by_hand
        self.volumes = self.own_volumes()

    def run(self) -> None:
        """All steps."""
        self.grace()
        self.mesh()
        for one in self.workload.containers:
            if self.by_hand or one.get("name") == self.record.engine:
                self.engine(one)
        self.lists()
        self.annotation()

    def own_volumes(self) -> set[str]:
        """Volumes that nobody needs without the sidecar."""
        if not self.by_hand:
            return set(VOLUMES)
        mine = {name for one in self.ours for name in mounts_of(one).values()}
        shared = {
            name for one in self.ours for path, name in mounts_of(one).items() if path == SHARED_DIR
        }
        every = [*self.workload.init_containers, *self.workload.containers]
        others = {name for one in every if not is_ours(one) for name in mounts_of(one).values()}
        return (mine - others) | shared

    def grace(self) -> None:
        """The grace period, unless somebody has set another one since."""
        told = [
            one.get("value")
            for each in self.ours
            for one in each.get("env") or ()
            if one.get("name") == "CACHEAWARE_GRACE_SECONDS"
        ]
        if str(self.spec.get("terminationGracePeriodSeconds")) in map(str, told):
            self.record.restore("grace", self.spec, "terminationGracePeriodSeconds")

    def mesh(self) -> None:
        """The sidecar's port in the annotations of meshes."""
        meta = self.workload.template.get("metadata") or {}
        annotations = meta.get("annotations") or {}
        for place in [one for one in self.record.was if one.startswith("annotation ")]:
            name, was = place.removeprefix("annotation "), self.record.was[place]
            left = included_again(annotations.get(name), self.port)
            if name in annotations and left in {included_again(was, self.port), ""}:
                self.record.restore(place, annotations, name)
            elif name in annotations:
                annotations[name] = left
            self.record.prune(meta, "annotations")
            self.record.prune(self.workload.template, "metadata")

    @property
    def port(self) -> int:
        """The sidecar's port; 0 where none is named."""
        ports = [port for one in self.ours for port in one.get("ports") or ()]
        return int(next((one["containerPort"] for one in ports if "containerPort" in one), 0))

    def engine(self, container: Any) -> None:
        """Hook, gate, argument and mount of the engine's container."""
        lifecycle = container.get("lifecycle") or {}
        if hook_of(container).kind is HookKind.DRAIN:
            self.record.was.setdefault("preStop", None)
            self.record.restore("preStop", lifecycle, "preStop")
            self.record.prune(container, "lifecycle")
        probe = (container.get("readinessProbe") or {}).get("httpGet") or {}
        if probe.get("path") == READINESS:
            self.record.restore("readinessProbe", container, "readinessProbe")
        if self.record.argument:
            held, argument = self.record.argument
            if argument in (container.get(held) or ()):
                container[held].remove(argument)
        without(container, "volumeMounts", self.volumes)
        self.record.prune(container, "volumeMounts")

    def lists(self) -> None:
        """The sidecar's container and the volumes."""
        for key in ("initContainers", "containers"):
            if self.spec.get(key):
                self.spec[key] = [
                    one for one in self.spec[key] if not any(one is x for x in self.ours)
                ]
        self.record.prune(self.spec, "initContainers")
        without(self.spec, "volumes", self.volumes)
        self.record.prune(self.spec, "volumes")

    def annotation(self) -> None:
        """The record itself."""
        meta = self.workload.body.get("metadata") or {}
        (meta.get("annotations") or {}).pop(ANNOTATION, None)
        self.record.prune(meta, "annotations", "own annotations")
        self.record.prune(self.workload.body, "metadata", "own metadata")


def without(holder: Any, key: str, names: set[str]) -> None:
    """Take items of these names out of a list."""
    if holder.get(key):
        holder[key] = [one for one in holder[key] if one.get("name") not in names]
