"""The target workload, seen through its scale subresource: anything with `/scale`."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cacheaware.kube import Kube, KubeError
from cacheaware.names import Reasons
from cacheaware.observe.selector import Selector, SelectorError, parse_selector
from cacheaware.pods import PodRecord
from cacheaware.workload.gpus import gpus_per_replica
from cacheaware.workload.template import LWS, LWS_WORKER_INDEX, TEMPLATES
from cacheaware.workload.writers import replicas_by

ROLLING = frozenset({"Deployment", "StatefulSet"})
"""Kinds of which we know when a rolling update is under way."""
LEADS = "0"
Same = tuple[str, str, str, str]
"""Namespace, group, kind and name: one object, whatever version names it."""


class TargetError(Exception):
    """The target can't be read; `reason` is the condition's reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class TargetRef(Struct, frozen=True, order=True):
    """`spec.scaleTargetRef` with its namespace."""

    namespace: str
    api_version: str
    kind: str
    name: str

    @property
    def group(self) -> str:
        """The API group; empty for the core one."""
        return self.api_version.rpartition("/")[0]

    @property
    def same(self) -> Same:
        """What identifies the object whatever version names it."""
        return (self.namespace, self.group, self.kind, self.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Target(Struct, frozen=True, kw_only=True):
    """A target at the moment it was read."""

    ref: TargetRef
    path: str
    """Of its scale subresource."""
    spec_replicas: int
    selector: Selector
    resource_version: str
    """Of this read: a write that carries it is refused (409) when anything came between."""
    rollout: bool = False
    problem: str | None = None
    gpus: int | None = None
    """GPUs of one replica; None where its template names none, or can't be read."""
    replicas_by: str = ""
    """The other field manager that last wrote the replicas; empty where that is not known."""


class Manifest(Struct, frozen=True):
    """What the object itself told at a resourceVersion."""

    resource_version: str
    rollout: bool = False
    """Whether a rolling update was under way."""
    problem: str | None = None
    gpus: int | None = None
    replicas_by: str = ""


class Targets:
    """Reads targets; remembers where each kind lives and which objects have not changed."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._plurals: dict[tuple[str, str], str] = {}
        self._manifests: dict[Same, Manifest] = {}

    async def read(self, ref: TargetRef) -> Target:
        """The target as it stands.

        Raises:
            TargetError: there is no such kind or object, it has no `/scale`, or we may not read it.
            KubeError: the API failed; asking again later may help.
        """
        try:
            path, scale = await self._scale(ref)
        except KubeError as error:
            raise target_error(ref, error) from error
        target = parse_scale(ref, path, scale)
        found = await self._manifest(target)
        return replace(
            target,
            rollout=found.rollout,
            problem=found.problem,
            gpus=found.gpus,
            replicas_by=found.replicas_by,
        )

    def forget(self, refs: set[Same]) -> None:
        """Keep only what is known of these targets."""
        for gone in set(self._manifests) - refs:
            del self._manifests[gone]

    async def _scale(self, ref: TargetRef) -> tuple[str, dict[str, Any]]:
        known = (ref.api_version, ref.kind) in self._plurals
        path = await self._path(ref)
        try:
            return path, await self._kube.get(path)
        except KubeError as error:
            if error.status != 404 or not known:
                raise
        del self._plurals[ref.api_version, ref.kind]
        path = await self._path(ref)
        return path, await self._kube.get(path)

    async def _path(self, ref: TargetRef) -> str:
        root = f"/apis/{ref.api_version}" if ref.group else f"/api/{ref.api_version}"
        key = (ref.api_version, ref.kind)
        if key not in self._plurals:
            self._plurals[key] = scalable_plural(ref, await self._kube.get(root))
        return f"{root}/namespaces/{ref.namespace}/{self._plurals[key]}/{ref.name}/scale"

    async def _manifest(self, target: Target) -> Manifest:
        """A change of the object changes its resourceVersion: unchanged, it is not read again."""
        key = target.ref.same
        if (target.ref.group, target.ref.kind) not in TEMPLATES:
            return Manifest(target.resource_version)
        known = self._manifests.get(key)
        if known is None or known.resource_version != target.resource_version or known.problem:
            self._manifests[key] = await self._read_manifest(target, known)
        return self._manifests[key]

    async def _read_manifest(self, target: Target, known: Manifest | None) -> Manifest:
        try:
            body = await self._kube.get(target.path.removesuffix("/scale"))
        except KubeError as error:
            return unread(target, known, error)
        return Manifest(
            resource_version=str(body["metadata"]["resourceVersion"]),
            rollout=target.ref.kind in ROLLING and rolling_out(body),
            gpus=gpus_per_replica(body),
            replicas_by=replicas_by(body),
        )


def unread(target: Target, known: Manifest | None, error: KubeError) -> Manifest:
    """An object that can't be read now: its GPUs are what they were, a rollout may be under way."""
    problem = f"{target.ref} can't be read ({error})"
    if target.ref.kind in ROLLING:
        problem = f"whether {target.ref} is being rolled out can't be read ({error}): no shrink"
    return Manifest(
        resource_version=target.resource_version,
        rollout=target.ref.kind in ROLLING,
        problem=problem,
        gpus=known.gpus if known else None,
    )


def leaders(ref: TargetRef, records: Iterable[PodRecord]) -> list[PodRecord]:
    """The pods that serve: of a LeaderWorkerSet's groups the leaders, each a replica."""
    if ref.kind != LWS:
        return list(records)
    return [one for one in records if one.labels.get(LWS_WORKER_INDEX, LEADS) == LEADS]


def target_error(ref: TargetRef, error: KubeError) -> Exception:
    """What a failed read means for the user; other failures stay what they are."""
    if error.status == 404:
        return TargetError(Reasons.TARGET_NOT_FOUND, f"{ref} ({ref.api_version}) does not exist")
    if error.status == 403:
        return TargetError(
            Reasons.TARGET_FORBIDDEN,
            f"the operator may not read the scale of {ref}: {error.message}",
        )
    return error


def scalable_plural(ref: TargetRef, resources: Mapping[str, Any]) -> str:
    """The resource's name in paths, from discovery.

    Raises:
        TargetError: the group has no such kind, or the kind has no scale subresource.
    """
    listed = resources.get("resources") or ()
    plurals = [
        str(one["name"]) for one in listed if one["kind"] == ref.kind and "/" not in one["name"]
    ]
    if not plurals:
        raise TargetError(Reasons.TARGET_NOT_FOUND, f"{ref.api_version} has no kind {ref.kind}")
    if not any(one["name"] == f"{plurals[0]}/scale" for one in listed):
        raise TargetError(
            Reasons.TARGET_NOT_FOUND, f"{ref.api_version} {ref.kind} has no scale subresource"
        )
    return plurals[0]


def parse_scale(ref: TargetRef, path: str, scale: Mapping[str, Any]) -> Target:
    """A Scale object.

    Raises:
        TargetError: its selector does not tell its pods.
    """
    status = scale.get("status") or {}
    try:
        selector = parse_selector(status.get("selector") or "")
    except SelectorError as error:
        raise TargetError(Reasons.TARGET_NOT_FOUND, f"{ref}: {error}") from error
    return Target(
        ref=ref,
        path=path,
        spec_replicas=int((scale.get("spec") or {}).get("replicas") or 0),
        selector=selector,
        resource_version=str(scale["metadata"]["resourceVersion"]),
    )


def rolling_out(body: Mapping[str, Any]) -> bool:
    """Whether a Deployment or StatefulSet is in the middle of a rolling update."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        return True
    if body.get("kind") == "StatefulSet" or "serviceName" in spec:
        strategy = spec.get("updateStrategy") or {}
        held_back = (strategy.get("rollingUpdate") or {}).get("partition") or 0
        if strategy.get("type") == "OnDelete" or held_back:
            return False
        return bool(status.get("currentRevision") != status.get("updateRevision"))
    return bool(status.get("updatedReplicas", 0) != status.get("replicas", 0))
