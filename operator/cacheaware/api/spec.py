"""`spec`: what a user asks for. Bounds and defaults here are the CRD's bounds and defaults."""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue, field_validator

from cacheaware.api.base import Model, Rule
from cacheaware.api.references import OBJECT_NAME, SecretKeyRef, cel_regex
from cacheaware.api.wishes import Activation, Schedule
from cacheaware.names import KIND

API_VERSION = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9]+((alpha|beta)[0-9]+)?$"
HTTP_PATH = r"^/[-._~!$&()*+,;=:@%/a-zA-Z0-9]*$"

EngineType = Literal[
    "Auto",
    "VLLM",
    "SGLang",
    "TGI",
    "TRTLLM",
    "Triton",
    "LlamaCpp",
    "LMDeploy",
    "InferenceSim",
    "Generic",
]
DIALECTS: dict[str, str] = {
    "VLLM": "vllm",
    "SGLang": "sglang",
    "TGI": "tgi",
    "TRTLLM": "trtllm",
    "Triton": "triton-trtllm",
    "LlamaCpp": "llamacpp",
    "LMDeploy": "lmdeploy",
    "InferenceSim": "inference-sim",
    "Generic": "generic",
}
"""`engine.type` to the name that `cacheaware_sidecar.engines` uses; Auto is absent."""


class ScaleTargetRef(Model):
    """The workload to scale: anything with a `/scale` subresource."""

    api_version: str = Field(min_length=1, max_length=256)
    """Group and version of the target, such as `apps/v1`."""
    kind: str = Field(min_length=1, max_length=63)
    """Kind of the target, such as `Deployment` or `StatefulSet`."""
    name: str = Field(min_length=1, max_length=253)
    """Name of the target, in the namespace of the CacheAwareScaler."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.apiVersion.matches({cel_regex(API_VERSION)})",
            lambda ref: re.fullmatch(API_VERSION, ref.api_version) is not None,
            "apiVersion {apiVersion} must be a group and version such as apps/v1",
            ".apiVersion",
            shown=True,
        ),
        Rule(
            f"self.kind != '{KIND}'",
            lambda ref: ref.kind != KIND,
            f"kind must be a workload such as Deployment; a {KIND} cannot scale another one",
            ".kind",
        ),
        Rule(
            f"self.name.matches({cel_regex(OBJECT_NAME)})",
            lambda ref: re.fullmatch(OBJECT_NAME, ref.name) is not None,
            "name {name} must be that of a workload: lower case letters, digits, - and .",
            ".name",
            shown=True,
        ),
    )


class Engine(Model):
    """How to read an engine's metrics where a pod has no sidecar (`Direct`)."""

    type: EngineType = "Auto"
    """The engine; Auto recognises it from its metrics page."""
    ports: list[Annotated[int, Field(ge=1, le=65535)]] | None = Field(
        default=None,
        min_length=1,
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    """Ports that serve metrics, one for each engine of a pod; without it the port is looked for
    among the container's ports."""
    path: str | None = Field(default=None, min_length=1, max_length=256)
    """Path of the metrics page; without it what the pod's annotations say, else /metrics."""
    scheme: Literal["HTTP", "HTTPS"] = "HTTP"
    """How the metrics page is served."""
    role: Literal["Both", "Prefill", "Decode"] = "Both"
    """What these pods do. Decode pods are not measured by the time to the first token, and their
    waiting requests get no discount for cached prefixes."""
    authorization_secret_ref: SecretKeyRef | None = None
    """The bearer token for the metrics page."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!has(self.path) || self.path.matches({cel_regex(HTTP_PATH)})",
            lambda engine: engine.path is None or re.fullmatch(HTTP_PATH, engine.path) is not None,
            "path {path} must begin with / and hold no query, fragment or blank, such as /metrics",
            ".path",
            shown=True,
        ),
    )

    @field_validator("ports")
    @classmethod
    def ports_differ(cls, ports: list[int] | None) -> list[int] | None:
        """A set, as `x-kubernetes-list-type` says."""
        if ports is not None and len(set(ports)) < len(ports):
            raise ValueError("a port is named twice")
        return ports

    @property
    def dialect(self) -> str | None:
        """The engine's name in `cacheaware_sidecar.engines`; None where it is to be recognised."""
        return DIALECTS.get(self.type)


class Targets(Model):
    """How full a replica may be. Growing needs one of these exceeded, shrinking all of them low."""

    kv_utilization_percent: int = Field(default=80, ge=1, le=100)
    """Pinned KV cache of a replica, in percent of its capacity."""
    pending_per_replica: int = Field(default=5, ge=1, le=10_000)
    """Waiting requests per replica."""
    time_to_first_token_ms: int | None = Field(default=None, ge=1, le=600_000)
    """The 90th percentile of the time to the first token, in milliseconds. Above it the fleet grows
    by one replica at a time and does not shrink."""


class ScalingPolicy(Model):
    """At most `value` pods or percent of the fleet within any period."""

    type: Literal["Pods", "Percent"]
    """What `value` counts."""
    value: int = Field(ge=1, le=10_000)
    """Pods, or percent of the replicas at the period's beginning."""
    period_seconds: int = Field(ge=1, le=1800)
    """Length of the period."""


UP_POLICIES: list[JsonValue] = [
    {"type": "Percent", "value": 100, "periodSeconds": 15},
    {"type": "Pods", "value": 4, "periodSeconds": 15},
]
DOWN_POLICIES: list[JsonValue] = [
    {"type": "Percent", "value": 10, "periodSeconds": 60},
    {"type": "Pods", "value": 1, "periodSeconds": 60},
]
POLICIES = "How fast it may go. Where an outdated CRD drops this field: at most 2 pods a minute."


class ScalingRules(Model):
    """One direction of `behavior`, in the words of the HorizontalPodAutoscaler."""

    stabilization_window_seconds: int = Field(default=0, ge=0, le=3600)
    """Growing takes the lowest recommendation of this window, shrinking the highest."""
    select_policy: Literal["Max", "Min", "Disabled"] = "Max"
    """Which policy counts: the one that allows most, the one that allows least, or no change."""
    policies: list[ScalingPolicy] = Field(default=[], min_length=1, max_length=8)
    tolerance_percent: int = Field(default=10, ge=0, le=100)
    """A load that differs from the target by less than this changes nothing."""


class ScaleUp(ScalingRules):
    """How the fleet grows."""

    policies: list[ScalingPolicy] = Field(
        default=[],
        min_length=1,
        max_length=8,
        description=POLICIES,
        json_schema_extra={"default": UP_POLICIES, "x-kubernetes-list-type": "atomic"},
    )


class ScaleDown(ScalingRules):
    """How the fleet shrinks."""

    stabilization_window_seconds: int = Field(default=300, ge=0, le=3600)
    """Shrinking takes the highest recommendation of this window."""
    policies: list[ScalingPolicy] = Field(
        default=[],
        min_length=1,
        max_length=8,
        description=POLICIES,
        json_schema_extra={"default": DOWN_POLICIES, "x-kubernetes-list-type": "atomic"},
    )


class Behavior(Model):
    """How fast the fleet grows and shrinks."""

    scale_up: ScaleUp = Field(default_factory=ScaleUp)
    """How the fleet grows."""
    scale_down: ScaleDown = Field(default_factory=ScaleDown)
    """How the fleet shrinks."""


class Drain(Model):
    """The operator's side of giving pods up; a pod's own deadline is set in its template."""

    share_percent: int = Field(default=25, ge=1, le=100)
    """At most this share of the replicas is on its way out at a time, but always one."""
    deadline_seconds: int = Field(default=300, ge=1, le=86_400)
    """How long a cordoned pod may take to be empty, and a terminating one is waited for."""


class Fallback(Model):
    """What to do when nothing is known of the load."""

    after_seconds: int = Field(default=300, ge=15, le=86_400)
    """How long nothing must have been known."""
    replicas: int = Field(ge=1, le=10_000)
    """At least so many replicas from then on; more are kept."""


def reachable(spec: Any) -> bool:
    """Whether a full cache is more than the target and its tolerance."""
    tolerance = spec.behavior.scale_up.tolerance_percent
    return bool(spec.targets.kv_utilization_percent * (100 + tolerance) < 10_000)


class ScalerSpec(Model):
    """What is scaled, within which bounds and by which targets."""

    scale_target_ref: ScaleTargetRef
    """The workload to scale. It can be changed until the first scaling."""
    mode: Literal["Advise", "Scale"] = "Advise"
    """Advise decides and reports and writes nothing but this status; Scale acts."""
    min_replicas: int = Field(default=1, ge=0, le=10_000)
    """Never fewer than this."""
    max_replicas: int = Field(ge=1, le=10_000)
    """Never more than this."""
    observation: Literal["Auto", "Sidecar", "Direct"] = "Auto"
    """Where loads are read: from the sidecar, straight from the engine, or from the sidecar where
    a pod has one. Direct can grow a fleet, and shrinks it by idle pods only."""
    engine: Engine = Field(default_factory=Engine)
    """How to read an engine's metrics where a pod has no sidecar."""
    targets: Targets = Field(default_factory=Targets)
    """How full a replica may be."""
    behavior: Behavior = Field(default_factory=Behavior)
    """How fast the fleet grows and shrinks."""
    drain: Drain = Field(default_factory=Drain)
    """The operator's side of giving pods up."""
    fallback: Fallback | None = None
    """What to do when nothing is known of the load; without it the replicas are held."""
    headroom_percent: int = Field(default=0, ge=0, le=100)
    """So much more than what is foreseen is kept ready, in percent of it."""
    warm_pool: int = Field(default=0, ge=0, le=10_000)
    """So many replicas more than the load asks for, up to maxReplicas."""
    max_gpus: int | None = Field(default=None, ge=1, le=1_000_000)
    """GPUs that all replicas may hold together. Replicas are capped by the GPUs of one, as the
    target's template names them; where it names none, the status says so and no cap applies."""
    schedules: list[Schedule] | None = Field(
        default=None,
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    """Floors at set times; of several that hold the highest counts, up to maxReplicas."""
    activation: Activation | None = None
    """What wakes the target from 0 replicas; required where minReplicas is 0."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.minReplicas >= 1 || has(self.activation)",
            lambda spec: spec.min_replicas >= 1 or spec.activation is not None,
            "minReplicas must be 1 or more: nothing could wake a workload that has 0 replicas,"
            " unless activation says what does",
            ".minReplicas",
        ),
        Rule(
            "self.minReplicas <= self.maxReplicas",
            lambda spec: spec.min_replicas <= spec.max_replicas,
            "minReplicas {minReplicas} must not be greater than maxReplicas {maxReplicas}",
            ".minReplicas",
        ),
        Rule(
            "!has(self.fallback) || self.fallback.replicas <= self.maxReplicas",
            lambda spec: spec.fallback is None or spec.fallback.replicas <= spec.max_replicas,
            "fallback.replicas {fallback.replicas} must not be greater than"
            " maxReplicas {maxReplicas}",
            ".fallback.replicas",
        ),
        Rule(
            "!has(self.schedules) || self.schedules.all(one, one.minReplicas <= self.maxReplicas)",
            lambda spec: all(one.min_replicas <= spec.max_replicas for one in spec.schedules or ()),
            "minReplicas of schedules must not be greater than maxReplicas {maxReplicas}",
            ".schedules",
        ),
        Rule(
            "self.warmPool <= self.maxReplicas",
            lambda spec: spec.warm_pool <= spec.max_replicas,
            "warmPool {warmPool} must not be greater than maxReplicas {maxReplicas}",
            ".warmPool",
        ),
        Rule(
            "self.targets.kvUtilizationPercent"
            " * (100 + self.behavior.scaleUp.tolerancePercent) < 10000",
            reachable,
            "targets.kvUtilizationPercent {targets.kvUtilizationPercent} with"
            " behavior.scaleUp.tolerancePercent {behavior.scaleUp.tolerancePercent} can never be"
            " exceeded: a full cache is 100 percent; lower one of them",
            ".targets.kvUtilizationPercent",
        ),
    )
