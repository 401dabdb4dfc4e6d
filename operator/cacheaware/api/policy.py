"""CacheAwareScaler -> Policy: from what a user wrote to the plain numbers of a decision."""

from cacheaware.api import wishes
from cacheaware.api.models import CacheAwareScaler
from cacheaware.api.spec import Fallback, ScalerSpec, ScalingRules
from cacheaware.decide.policy import PRUNED, Activation, Policy, RatePolicy, Rules, Schedule


def policy_of(scaler: CacheAwareScaler) -> Policy:
    """The policy of a CacheAwareScaler as it was read from the API server."""
    spec = scaler.spec
    return Policy(
        mode=spec.mode,
        min_replicas=spec.min_replicas,
        max_replicas=spec.max_replicas,
        kv_utilization_percent=spec.targets.kv_utilization_percent,
        pending_per_replica=spec.targets.pending_per_replica,
        ttft_p90_ms=spec.targets.time_to_first_token_ms,
        role=spec.engine.role,
        scale_up=rules_of(spec.behavior.scale_up),
        scale_down=rules_of(spec.behavior.scale_down),
        fallback_after_seconds=spec.fallback.after_seconds if spec.fallback else None,
        fallback_replicas=spec.fallback.replicas if spec.fallback else None,
        keep_stale_seconds=(spec.fallback or Fallback(replicas=1)).after_seconds,
        drain_share_percent=spec.drain.share_percent,
        drain_deadline_seconds=spec.drain.deadline_seconds,
        headroom_percent=spec.headroom_percent,
        schedules=schedules_of(spec),
        warm_pool=spec.warm_pool,
        max_gpus=spec.max_gpus,
        activation=activation_of(spec.activation),
    )


def schedules_of(spec: ScalerSpec) -> tuple[Schedule, ...]:
    """The schedules, in their order."""
    return tuple(
        Schedule(
            cron=one.cron,
            time_zone=one.time_zone,
            duration_seconds=one.duration_seconds,
            min_replicas=one.min_replicas,
        )
        for one in spec.schedules or ()
    )


def activation_of(activation: wishes.Activation | None) -> Activation | None:
    """When the signal wakes the target."""
    if activation is None:
        return None
    return Activation(threshold=activation.threshold, idle_seconds=activation.idle_seconds)


def rules_of(rules: ScalingRules) -> Rules:
    """One direction; policies that an outdated CRD has dropped become a safe limit, not none."""
    return Rules(
        stabilization_seconds=rules.stabilization_window_seconds,
        select=rules.select_policy,
        policies=tuple(
            RatePolicy(policy.type, policy.value, policy.period_seconds)
            for policy in rules.policies
        )
        or (PRUNED,),
        tolerance_percent=rules.tolerance_percent,
    )
