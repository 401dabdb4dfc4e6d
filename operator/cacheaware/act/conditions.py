"""The conditions of a CacheAwareScaler, from what a round found: pure functions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from cacheaware.decide.decision import Decision
from cacheaware.decide.fleet import FleetView, PodView, Unknown
from cacheaware.names import Conditions, Reasons
from cacheaware_sidecar.phase import Phase

TRUE = "True"
FALSE = "False"
UNKNOWN = "Unknown"
NAMED = 5
"""So many sick pods are named."""
TELLING = (
    Reasons.CORDON_UNAVAILABLE,
    Reasons.STICKY_CLIENTS,
    Reasons.UNSCHEDULABLE,
    Reasons.GPUS_UNKNOWN,
)
"""Limits that are reasons of their own, whatever else the decision does."""


class Fault(Struct, frozen=True):
    """Something that keeps a scaler from working."""

    reason: str
    message: str


class Situation(Struct, frozen=True, kw_only=True):
    """All that a round found out about one scaler."""

    mode: str
    fleet: FleetView | None = None
    decision: Decision | None = None
    """None: nothing could be decided; one of the faults says why."""
    target_fault: Fault | None = None
    pods_fault: Fault | None = None
    """The target's pods can't be listed."""
    conflict: str | None = None
    """Another owner of the target's replicas, as a noun; in Advise that is information."""
    write_fault: Fault | None = None
    missing_fields: tuple[str, ...] = ()
    """Fields that the installed CRD drops."""


class Condition(Struct, frozen=True):
    """One condition without its times."""

    type: str
    status: str
    reason: str
    message: str


def conditions(found: Situation) -> list[Condition]:
    """All conditions, the summary first."""
    parts = [
        target_resolved(found),
        metrics_available(found),
        scaling_active(found),
        able_to_scale(found),
        scaling_limited(found),
        conflicted(found),
    ]
    outdated = [schema_outdated(found.missing_fields)] if found.missing_fields else []
    unhealthy = cache_unhealthy(found.fleet)
    return [ready(found, parts), *parts, *outdated, *([unhealthy] if unhealthy else [])]


def ready(found: Situation, parts: Sequence[Condition]) -> Condition:
    """The summary; its reason and message are the decision's, or those of what is wrong."""
    bad = [one for one in parts if unwell(one, found)]
    if bad:
        return Condition(Conditions.READY, FALSE, bad[0].reason, bad[0].message)
    if found.decision is None:
        return Condition(Conditions.READY, UNKNOWN, Reasons.PENDING, "nothing decided yet")
    return Condition(Conditions.READY, TRUE, found.decision.reason, found.decision.message)


def unwell(one: Condition, found: Situation) -> bool:
    """Whether a condition keeps the scaler from doing its work."""
    if one.type == Conditions.CONFLICTED:
        return one.status == TRUE
    if one.type in {Conditions.SCALING_LIMITED, Conditions.SCALING_ACTIVE}:
        return False
    if one.type == Conditions.METRICS_AVAILABLE and found.decision is not None:
        return one.status == FALSE and (all_unknown(found) or asleep(found))
    return one.status == FALSE


def all_unknown(found: Situation) -> bool:
    """No serving pod's load is known, and there is one."""
    serving = serving_pods(found.fleet)
    return bool(serving) and all(pod.load is None for pod in serving)


def serving_pods(fleet: FleetView | None) -> list[PodView]:
    """The pods whose load counts."""
    pods = fleet.pods if fleet else ()
    return [pod for pod in pods if pod.phase is Phase.SERVING and not pod.terminating]


def target_resolved(found: Situation) -> Condition:
    """Whether the target was found and can be scaled."""
    if found.target_fault is not None:
        fault = found.target_fault
        return Condition(Conditions.TARGET_RESOLVED, FALSE, fault.reason, fault.message)
    if found.fleet is None:
        return Condition(Conditions.TARGET_RESOLVED, UNKNOWN, Reasons.PENDING, "not read yet")
    target = f"{found.fleet.target_kind} {found.fleet.target_name}"
    return Condition(Conditions.TARGET_RESOLVED, TRUE, Reasons.RESOLVED, f"{target} can be scaled")


def metrics_available(found: Situation) -> Condition:
    """Whether the load of every serving pod is known; the reason is the most common gap."""
    kind = Conditions.METRICS_AVAILABLE
    if found.pods_fault is not None:
        return Condition(kind, FALSE, found.pods_fault.reason, found.pods_fault.message)
    if found.fleet is None:
        return Condition(kind, UNKNOWN, Reasons.PENDING, "no pod was asked yet")
    serving = serving_pods(found.fleet)
    gaps = Counter(pod.unknown or Unknown.ERROR for pod in serving if pod.load is None)
    if gaps:
        reason, _ = gaps.most_common(1)[0]
        lines = [line for line in found.fleet.problems if line.startswith(reason.value)]
        told = "; ".join(lines or found.fleet.problems)
        known = f"{len(serving) - gaps.total()} of {len(serving)} serving pods are known"
        return Condition(kind, FALSE, reason.value, f"{known}; {told}" if told else known)
    if (unread := signal_unknown(found.fleet)) is not None:
        return Condition(kind, FALSE, Reasons.ACTIVATION_UNKNOWN, unread)
    if not serving:
        return Condition(kind, UNKNOWN, Reasons.NO_PODS, "no pod is serving")
    how = found.fleet.observation.lower()
    told = f"{len(serving)} of {len(serving)} serving pods are known ({how})"
    return Condition(kind, TRUE, Reasons.OBSERVED, told)


def signal_unknown(fleet: FleetView) -> str | None:
    """That the activation signal can't be read, in a sentence; None where it can, or there is none.

    A target that sleeps without a signal is about to get its `minReplicas`.
    """
    wake = fleet.around.wake
    if wake is None or wake.reading.value is not None or not wake.reading.detail:
        return None
    return f"the activation signal is not known: {wake.reading.detail}"


def asleep(found: Situation) -> bool:
    """Whether the target has no replicas by our own doing."""
    wake = found.fleet.around.wake if found.fleet else None
    return wake is not None and wake.asleep


def scaling_active(found: Situation) -> Condition:
    """Whether we write the target's replicas."""
    kind = Conditions.SCALING_ACTIVE
    if found.mode != "Scale":
        return Condition(kind, FALSE, Reasons.ADVISED, "mode is Advise: nothing is written")
    if found.conflict:
        return Condition(kind, FALSE, Reasons.CONFLICT, managed_by(found.conflict))
    paused = found.fleet is not None and found.fleet.spec_replicas == 0 and not asleep(found)
    if paused:
        return Condition(kind, FALSE, Reasons.PAUSED, "somebody set the target's replicas to 0")
    if found.decision is None:
        fault = found.target_fault or found.pods_fault
        reason = fault.reason if fault else Reasons.PENDING
        return Condition(kind, FALSE, reason, fault.message if fault else "nothing decided yet")
    if all_unknown(found):
        return Condition(kind, FALSE, found.decision.reason, found.decision.message)
    return Condition(kind, TRUE, Reasons.SCALING, "the target's replicas follow the decisions")


def able_to_scale(found: Situation) -> Condition:
    """Whether the last write, if there was one, went through."""
    kind = Conditions.ABLE_TO_SCALE
    if found.write_fault is not None:
        return Condition(kind, FALSE, found.write_fault.reason, found.write_fault.message)
    return Condition(kind, TRUE, Reasons.READY_TO_SCALE, "no write has failed")


def scaling_limited(found: Situation) -> Condition:
    """Whether something keeps the replicas from where the load alone would lead them."""
    kind = Conditions.SCALING_LIMITED
    limits = found.decision.limited_by if found.decision else ()
    if not limits:
        return Condition(kind, FALSE, Reasons.NOT_LIMITED, "")
    reason = next((one for one in TELLING if one in limits), "")
    reason = reason or (found.decision.reason if found.decision else "")
    return Condition(kind, TRUE, reason, f"limited by {', '.join(limits)}")


def conflicted(found: Situation) -> Condition:
    """Whether somebody else owns the target's replicas."""
    kind = Conditions.CONFLICTED
    if found.conflict and found.mode == "Scale":
        return Condition(kind, TRUE, Reasons.CONFLICT, managed_by(found.conflict))
    contested = found.fleet.around.contested if found.fleet else None
    if contested is not None:
        return Condition(kind, TRUE, Reasons.REPLICAS_CONTESTED, contested.told)
    told = f"{managed_by(found.conflict)}; in Advise that is no conflict" if found.conflict else ""
    return Condition(kind, FALSE, Reasons.NO_CONFLICT, told)


def managed_by(owner: str) -> str:
    """A conflict in a sentence."""
    return f"the target is managed by {owner}: nothing is written"


def schema_outdated(missing: Sequence[str]) -> Condition:
    """The installed CRD is older than the operator and drops fields."""
    told = f"the installed CRD drops {', '.join(missing)}: apply the CRD of this version"
    return Condition(Conditions.SCHEMA_OUTDATED, TRUE, Reasons.SCHEMA_OUTDATED, told)


def cache_unhealthy(fleet: FleetView | None) -> Condition | None:
    """Pods whose KV cache is in trouble, each with what its sidecar finds; None where none is.

    It tells no numbers, so that a trouble that lasts is written once.
    """
    sick = [pod for pod in (fleet.pods if fleet else ()) if pod.findings]
    if not sick:
        return None
    named = [f"{pod.name}: {', '.join(pod.findings)}" for pod in sick[:NAMED]]
    more = [f"and {len(sick) - NAMED} more"] if len(sick) > NAMED else []
    told = f"{'; '.join([*named, *more])}. `cacheaware doctor pod/NAME` says more"
    return Condition(Conditions.CACHE_UNHEALTHY, TRUE, Reasons.CACHE_UNHEALTHY, told)


def dated(
    found: Sequence[Condition], before: Sequence[Mapping[str, Any]], now: str, generation: int
) -> list[dict[str, Any]]:
    """Conditions as the API keeps them; the transition time moves only when the status does."""
    earlier = {one.get("type"): one for one in before}
    result = []
    for one in found:
        past = earlier.get(one.type) or {}
        same = past.get("status") == one.status and past.get("lastTransitionTime")
        result.append(
            {
                "type": one.type,
                "status": one.status,
                "reason": one.reason,
                "message": one.message[:2048],
                "lastTransitionTime": past["lastTransitionTime"] if same else now,
                "observedGeneration": generation,
            }
        )
    return result
