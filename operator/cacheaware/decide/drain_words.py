"""What a drain does with a pod, in words with numbers."""

from cacheaware.decide.decision import Victim
from cacheaware.decide.fleet import PodView
from cacheaware.decide.supply import Load, Pod
from cacheaware.decide.worth import prefix_tokens_per_s
from cacheaware.names import Reasons

STICKY_S = 30.0
"""Requests that still arrive so long after a cordon come over connections that are kept."""


def sticky(view: PodView) -> bool:
    """Whether requests go on arriving half a minute after the cordon."""
    arrived = view.arrival_age_s
    return arrived is not None and arrived < STICKY_S <= view.cordoned_s - arrived


def reason_late(view: PodView) -> str:
    """Why a pod was not empty in time, in one word."""
    return Reasons.STICKY_CLIENTS if sticky(view) else Reasons.DRAIN_TIMED_OUT


def why_late(view: PodView, cordoned_s: float) -> str:
    """Why a pod was not empty in time."""
    if sticky(view):
        return f"requests kept arriving, the last {view.arrival_age_s:,.0f} s ago: sticky clients"
    return f"not empty {cordoned_s:,.0f} s after its cordon"


def coming_back(pod: Pod, why: str) -> Victim:
    """A pod to be uncordoned."""
    return Victim(pod=pod.view.name, uid=pod.view.uid, reason=why)


def giving_up(pod: Pod) -> Victim:
    """A pod to be cordoned, with what it is worth."""
    reason = f"worth least: {worth(pod.load)}" if pod.load is not None else "worth least"
    return Victim(pod=pod.view.name, uid=pod.view.uid, reason=reason)


def keeping(pod: Pod) -> Victim:
    """A pod that stays cordoned."""
    view, load = pod.view, pod.load
    if load is None:
        left = "its load is not known"
    elif view.empty:
        left = "empty"
    else:
        left = f"{requests(load)} left{expected(load)}"
    return Victim(pod=view.name, uid=view.uid, reason=left)


def emptied(pod: Pod, cordoned_s: float) -> Victim:
    """A pod that can go."""
    reason = f"cordoned {cordoned_s:,.0f} s ago and empty"
    return Victim(pod=pod.view.name, uid=pod.view.uid, reason=reason, cordoned=True)


def worth(load: Load) -> str:
    """What is lost with a pod of this load, in numbers."""
    parts = ["its engine sleeps"] if load.sleeping else []
    parts += [f"{requests(load)}{expected(load)}"]
    parts += [f"{load.used_tokens:,.0f} tokens pinned"] if load.used_tokens is not None else []
    served = prefix_tokens_per_s(load)
    parts += [f"{served:,.0f} prefix tokens/s"] if served is not None else []
    if load.prefix_hit_ratio is not None:
        parts.append(f"{100 * load.prefix_hit_ratio:.0f} % prefix hits")
    return ", ".join(parts)


def requests(load: Load) -> str:
    """The requests that a pod holds."""
    if load.requests is None:
        return "an unknown number of requests"
    return "1 request" if load.requests == 1 else f"{load.requests:,.0f} requests"


def expected(load: Load) -> str:
    """When a pod is expected to be empty, if that is known and not now."""
    return f", expected empty in {load.seconds_to_empty:,.0f} s" if load.seconds_to_empty else ""
