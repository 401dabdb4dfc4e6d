"""The CacheAwareScaler as it lies in the API server; the CRD is made from these models."""

from typing import ClassVar

from pydantic import Field

from cacheaware.api.base import Model, Rule
from cacheaware.api.references import SecretKeyRef
from cacheaware.api.spec import (
    Behavior,
    Drain,
    Engine,
    Fallback,
    ScaleDown,
    ScalerSpec,
    ScaleTargetRef,
    ScaleUp,
    ScalingPolicy,
    Targets,
)
from cacheaware.api.status import (
    Condition,
    DecisionRecord,
    ScalerStatus,
    TermRecord,
    VictimRecord,
    record_of,
)
from cacheaware.api.wishes import Activation, Label, Schedule
from cacheaware.names import API_VERSION, KIND

__all__ = [
    "Activation",
    "Behavior",
    "CacheAwareScaler",
    "Condition",
    "DecisionRecord",
    "Drain",
    "Engine",
    "Fallback",
    "Label",
    "Metadata",
    "ScaleDown",
    "ScaleTargetRef",
    "ScaleUp",
    "ScalerSpec",
    "ScalerStatus",
    "ScalingPolicy",
    "Schedule",
    "SecretKeyRef",
    "Targets",
    "TermRecord",
    "VictimRecord",
    "record_of",
]


class Metadata(Model):
    """The parts of an object's metadata that the operator reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class CacheAwareScaler(Model):
    """Scales a workload of LLM engines by what their KV caches hold."""

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: Metadata = Field(default_factory=Metadata)
    spec: ScalerSpec
    """What is scaled, within which bounds and by which targets."""
    status: ScalerStatus | None = None
    """What the operator sees, decides and did."""

    # Compares with the object before: only the API server can judge it.
    transition_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.spec.scaleTargetRef == oldSelf.spec.scaleTargetRef"
            " || !has(oldSelf.status) || !has(oldSelf.status.lastScaleTime)",
            lambda _: True,
            "scaleTargetRef cannot be changed once the target has been scaled:"
            " delete this CacheAwareScaler and create one for the other target",
            ".spec.scaleTargetRef",
        ),
    )
