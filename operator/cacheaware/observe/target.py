"""The target workload, seen through its scale subresource: anything with `/scale`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cacheaware.kube import Kube, KubeError
from cacheaware.names import Reasons
from cacheaware.observe.selector import Selector, SelectorError, parse_selector

Same = tuple[str, str, str, str]
"""Namespace, group, kind and name: one object, whatever version names it."""


class TargetError(Exception):
    """The target can't be read; `reason` is the condition's reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, order=True)
class TargetRef:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
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


@dataclass(frozen=True, slots=True)
class Rollout:
    """Whether a rolling update was under way at a resourceVersion."""

    resource_version: str
    under_way: bool
    problem: str | None = None


class Targets:
    """Reads targets; remembers where each kind lives and which objects have not changed."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._plurals: dict[tuple[str, str], str] = {}
        self._rollouts: dict[Same, Rollout] = {}

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
        rollout = await self._rollout(target)
        return replace(target, rollout=rollout.under_way, problem=rollout.problem)

    def forget(self, refs: set[Same]) -> None:
        """Keep only what is known of these targets."""
        for gone in set(self._rollouts) - refs:
            del self._rollouts[gone]

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

    async def _rollout(self, target: Target) -> Rollout:
        """A change of the object changes its resourceVersion: unchanged, it is not read again."""
        key = target.ref.same
        if target.ref.group != "apps" or target.ref.kind not in {"Deployment", "StatefulSet"}:
            return Rollout(target.resource_version, under_way=False)
        known = self._rollouts.get(key)
        if known is None or known.resource_version != target.resource_version or known.problem:
            self._rollouts[key] = await self._read_rollout(target)
        return self._rollouts[key]

    async def _read_rollout(self, target: Target) -> Rollout:
        try:
            body = await self._kube.get(target.path.removesuffix("/scale"))
        except KubeError as error:
            problem = f"whether {target.ref} is being rolled out can't be read ({error}): no shrink"
            return Rollout(target.resource_version, under_way=True, problem=problem)
        return Rollout(str(body["metadata"]["resourceVersion"]), rolling_out(body))


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
