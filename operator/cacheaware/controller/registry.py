"""What the watches tell: small frozen records by uid; the objects' bodies are not kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from cacheaware import names
from cacheaware.api.models import CacheAwareScaler
from cacheaware.api.policy import policy_of
from cacheaware.api.references import SecretKeyRef
from cacheaware.api.wishes import Activation
from cacheaware.decide.policy import Policy
from cacheaware.observe.activation import Source
from cacheaware.observe.observer import Access
from cacheaware.observe.schedules import ScheduleError, check
from cacheaware.observe.secrets import SecretRef
from cacheaware.observe.target import Same, TargetRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """A CacheAwareScaler as rounds use it."""

    namespace: str
    name: str
    uid: str
    version: str
    """resourceVersion."""
    generation: int = 1
    created: str = ""
    installation: str | None = None
    """The installation that its owner annotation names."""
    ref: TargetRef | None = None
    policy: Policy = field(default_factory=Policy)
    access: Access = field(default_factory=Access)
    activation: Source | None = None
    """Where the signal is read that wakes the target."""
    invalid: str | None = None
    """Why its spec can't be used; then it is only reported."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """Another autoscaler: an HPA or a KEDA ScaledObject."""

    kind: str
    namespace: str
    name: str
    uid: str
    version: str
    ref: TargetRef

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def scaler_record(body: Mapping[str, Any]) -> Scaler:
    """Reduce a CacheAwareScaler; a spec that an older CRD let through is told, not raised."""
    meta = body["metadata"]
    basis = Scaler(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        version=str(meta.get("resourceVersion", "")),
        generation=int(meta.get("generation") or 1),
        created=meta.get("creationTimestamp") or "",
        installation=(meta.get("annotations") or {}).get(names.OWNER),
    )
    try:
        model = CacheAwareScaler.model_validate(plain(body))
    except ValidationError as error:
        return replace(basis, invalid=first_error(error))
    policy = policy_of(model)
    try:
        check(policy.schedules)
    except ScheduleError as error:
        return replace(basis, invalid=str(error))
    target, engine = model.spec.scale_target_ref, model.spec.engine
    return replace(
        basis,
        ref=TargetRef(basis.namespace, target.api_version, target.kind, target.name),
        policy=policy,
        activation=source_of(basis.namespace, model.spec.activation),
        access=Access(
            observation=model.spec.observation,
            ports=tuple(engine.ports or ()),
            path=engine.path,
            scheme=engine.scheme.lower(),
            engine=engine.dialect or "auto",
            secret=secret_of(basis.namespace, engine.authorization_secret_ref),
            latency=policy.ttft_p90_ms is not None,
        ),
    )


def source_of(namespace: str, activation: Activation | None) -> Source | None:
    """Where the activation signal is read."""
    if activation is None:
        return None
    return Source(
        url=activation.url,
        metric=activation.metric,
        labels=tuple((one.name, one.value) for one in activation.labels or ()),
        secret=secret_of(namespace, activation.authorization_secret_ref),
    )


def secret_of(namespace: str, ref: SecretKeyRef | None) -> SecretRef | None:
    """A key in the scaler's own namespace."""
    return SecretRef(namespace, ref.name, ref.key) if ref else None


def plain(body: Mapping[str, Any]) -> dict[str, Any]:
    """What the models read of an object: the status is written by us and not read here."""
    return {"metadata": {"name": body["metadata"]["name"]}, "spec": dict(body.get("spec") or {})}


def first_error(error: ValidationError) -> str:
    """The first problem of a spec, as field: what is wrong."""
    problem = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}"


def foreign_record(kind: str, body: Mapping[str, Any]) -> Foreign | None:
    """Reduce an HPA or ScaledObject; None where it names no target."""
    meta, ref = body["metadata"], (body.get("spec") or {}).get("scaleTargetRef") or {}
    if not ref.get("name"):
        return None
    defaults = {"apiVersion": "apps/v1", "kind": "Deployment"} if kind == "ScaledObject" else {}
    target = {**defaults, **{key: value for key, value in ref.items() if value}}
    return Foreign(
        kind=kind,
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        version=str(meta.get("resourceVersion", "")),
        ref=TargetRef(
            meta["namespace"], target.get("apiVersion", ""), target.get("kind", ""), ref["name"]
        ),
    )


@dataclass(slots=True)
class Registry:
    """All scalers and foreign autoscalers known at this moment."""

    scalers: dict[str, Scaler] = field(default_factory=dict)
    foreign: dict[str, Foreign] = field(default_factory=dict)
    delivered: dict[str, str] = field(default_factory=dict)
    """The resourceVersion that the watches last delivered, by uid."""
    _on: dict[Same, set[str]] = field(default_factory=dict)
    """Uids by target: a round asks who else is on its own."""

    def put(self, record: Scaler | Foreign) -> None:
        """Take in what a list found."""
        self._unlink(record.uid)
        if record.ref is not None:
            self._on.setdefault(record.ref.same, set()).add(record.uid)
        if isinstance(record, Scaler):
            self.scalers[record.uid] = record
        else:
            self.foreign[record.uid] = record

    def deliver(self, record: Scaler | Foreign) -> None:
        """Take in what a watch told."""
        self.delivered[record.uid] = record.version
        self.put(record)

    def drop(self, uid: str) -> None:
        """Forget an object that is gone."""
        self._unlink(uid)
        self.scalers.pop(uid, None)
        self.foreign.pop(uid, None)
        self.delivered.pop(uid, None)

    def _unlink(self, uid: str) -> None:
        record = self.scalers.get(uid) or self.foreign.get(uid)
        if record is None or record.ref is None:
            return
        there = self._on.get(record.ref.same, set())
        there.discard(uid)
        if not there:
            self._on.pop(record.ref.same, None)

    def namespaces(self) -> set[str]:
        """Where there are scalers."""
        return {scaler.namespace for scaler in self.scalers.values()}

    def rivals(self, scaler: Scaler) -> list[Scaler]:
        """Other scalers in Scale with the same target."""
        if scaler.ref is None:
            return []
        there = (self.scalers.get(uid) for uid in self._on.get(scaler.ref.same, ()))
        others = (one for one in there if one is not None and one.uid != scaler.uid)
        return [one for one in others if one.policy.mode == "Scale"]

    def claims(self, ref: TargetRef) -> list[Foreign]:
        """Foreign autoscalers on a target."""
        return [self.foreign[uid] for uid in self._on.get(ref.same, ()) if uid in self.foreign]
