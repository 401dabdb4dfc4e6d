"""What the user asked for, as plain numbers: made from the CacheAwareScaler's spec."""

from msgspec import Struct


class RatePolicy(Struct, frozen=True):
    """At most `value` pods or percent of the fleet within any `period_seconds`."""

    type: str
    """Pods or Percent."""
    value: int
    period_seconds: int


class Rules(Struct, frozen=True, kw_only=True):
    """One direction of `behavior`, in the HPA's words."""

    stabilization_seconds: int
    select: str = "Max"
    """Max, Min or Disabled."""
    policies: tuple[RatePolicy, ...]
    tolerance_percent: int = 10


SCALE_UP = Rules(
    stabilization_seconds=0,
    policies=(RatePolicy("Percent", 100, 15), RatePolicy("Pods", 4, 15)),
)
SCALE_DOWN = Rules(
    stabilization_seconds=300,
    policies=(RatePolicy("Percent", 10, 60), RatePolicy("Pods", 1, 60)),
)
PRUNED = RatePolicy("Pods", 2, 60)
"""Where an old CRD has pruned the policies: a safe limit instead of none."""


class Schedule(Struct, frozen=True, kw_only=True):
    """A floor at set times: from each time that `cron` names, for `duration_seconds`."""

    cron: str
    """Five fields: minute, hour, day of the month, month, day of the week."""
    time_zone: str
    """IANA name."""
    duration_seconds: int
    min_replicas: int


class Activation(Struct, frozen=True, kw_only=True):
    """When a signal from outside wakes a target that has no replicas."""

    threshold: float
    """Above it the target is wanted; at or below it the signal is quiet."""
    idle_seconds: int
    """How long signal and pods must have been quiet before the last replica goes."""


class Policy(Struct, frozen=True, kw_only=True):
    """How a target is scaled."""

    mode: str = "Advise"
    min_replicas: int = 1
    max_replicas: int = 10
    kv_utilization_percent: int = 80
    pending_per_replica: int = 5
    headroom_percent: int = 0
    """On top of what is forecast."""
    ttft_p90_ms: int | None = None
    role: str = "Both"
    """Both, Prefill or Decode."""
    scale_up: Rules = SCALE_UP
    scale_down: Rules = SCALE_DOWN
    fallback_after_seconds: int | None = None
    fallback_replicas: int | None = None
    keep_stale_seconds: int = 300
    """So long the last load of a pod that only times out counts for growth."""
    drain_share_percent: int = 25
    """At most this share of the replicas is on its way out at a time, but always one."""
    drain_deadline_seconds: int = 300
    """How long a cordoned pod may take to be empty, and a terminating one is waited for."""
    round_seconds: float = 5.0
    startup_budget_seconds: int = 1800
    schedules: tuple[Schedule, ...] = ()
    warm_pool: int = 0
    """Replicas beyond what the load asks for."""
    max_gpus: int | None = None
    """GPUs that all replicas may hold together."""
    activation: Activation | None = None
    """Without it the target never goes to 0 replicas."""
