"""Every name the operator shows to the world: one place, each a constant, tested for uniqueness."""

from typing import Final

GROUP: Final = "cacheaware.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "CacheAwareScaler"
PLURAL: Final = "cacheawarescalers"
SINGULAR: Final = "cacheawarescaler"
SHORT: Final = "cas"
CATEGORY: Final = "autoscaling"

FIELD_MANAGER: Final = "cacheaware"
LEASE: Final = "cacheaware-operator"

SIDECAR_PORT: Final = 9440
SIDECAR_PORT_NAME: Final = "cacheaware"
"""A container port of this name says: this pod carries the sidecar, and here it listens."""

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
DELETION_COST_OWNER: Final = f"{GROUP}/deletion-cost-by"
"""Written beside a deletion cost of ours, so that a foreign one is told apart and ours swept."""
OWNER: Final = f"{GROUP}/owner"
"""On a CacheAwareScaler: the installation that serves it, so that a second one keeps off."""


class Conditions:
    """Types of status conditions."""

    READY: Final = "Ready"
    TARGET_RESOLVED: Final = "TargetResolved"
    METRICS_AVAILABLE: Final = "MetricsAvailable"
    SCALING_ACTIVE: Final = "ScalingActive"
    ABLE_TO_SCALE: Final = "AbleToScale"
    SCALING_LIMITED: Final = "ScalingLimited"
    CONFLICTED: Final = "Conflicted"
    SCHEMA_OUTDATED: Final = "SchemaOutdated"
    """Only there while the installed CRD drops fields."""


class Reasons:
    """Reasons of decisions, conditions and events; an event is sent once per transition."""

    SCALED_UP: Final = "ScaledUp"
    SCALED_DOWN: Final = "ScaledDown"
    ADVISED: Final = "Advised"
    STEADY: Final = "Steady"
    WITHIN_TOLERANCE: Final = "WithinTolerance"
    STABILIZING: Final = "Stabilizing"
    RATE_LIMITED: Final = "RateLimited"
    AT_MAXIMUM: Final = "AtMaximum"
    AT_MINIMUM: Final = "AtMinimum"
    WAITING_FOR_STARTING: Final = "WaitingForStarting"
    START_OVERDUE: Final = "StartOverdue"
    METRICS_UNKNOWN: Final = "MetricsUnknown"
    OVERLOADED_AND_SILENT: Final = "OverloadedAndSilent"
    FALLBACK: Final = "Fallback"
    DRAIN_UNAVAILABLE: Final = "DrainUnavailable"
    CORDON_UNAVAILABLE: Final = "CordonUnavailable"
    ROLLOUT: Final = "RolloutInProgress"
    PAUSED: Final = "Paused"
    CONFLICT: Final = "TargetConflict"
    TARGET_NOT_FOUND: Final = "TargetNotFound"
    TARGET_FORBIDDEN: Final = "TargetForbidden"
    SCHEMA_OUTDATED: Final = "SchemaOutdated"
    WRITE_FAILED: Final = "WriteFailed"
    INVALID_SPEC: Final = "InvalidSpec"
    OTHER_PODS_DELETED: Final = "OtherPodsDeleted"
    PENDING: Final = "Pending"
    RESOLVED: Final = "TargetFound"
    OBSERVED: Final = "AllPodsKnown"
    NO_PODS: Final = "NoServingPods"
    PODS_NOT_LISTED: Final = "PodsNotListed"
    SCALING: Final = "Scaling"
    READY_TO_SCALE: Final = "ReadyToScale"
    NOT_LIMITED: Final = "NotLimited"
    NO_CONFLICT: Final = "NoConflict"
