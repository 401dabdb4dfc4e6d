"""The cancelable drain: pods that are given up leave the endpoints, and go when they are empty.

A cordoned pod counts as given up already: the fleet's current size is its replicas less the
cordoned pods. So when load returns they come back first, which takes a second, and only what they
can't carry is ordered. A pod that won't empty in time comes back as well, and is left alone for a
while: its clients keep their connections, and cutting them is not ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cacheaware.decide.decision import Victim
from cacheaware.decide.fleet import PodView
from cacheaware.decide.memory import Bar, Memory
from cacheaware.decide.supply import Pod
from cacheaware.decide.victims import (
    BY_COST,
    BY_ORDINAL,
    Asked,
    Shrink,
    by_ordinal,
    carried,
    never_served,
    shrink,
    worth_of,
    young,
)
from cacheaware.names import Reasons
from cacheaware_sidecar.phase import Phase

STICKY_S = 30.0
"""Requests that still arrive so long after a cordon come over connections that are kept."""
BARRED_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What a plan is made from."""

    scaler: str
    """Uid of the scaler: cordons carry it."""
    spec: int
    """Replicas as the target asks for them."""
    goal: int
    """Replicas that are wanted, of which none is cordoned."""
    asked: Asked
    least: int
    """Pods that must go on serving."""
    deadline_s: float
    """The longest time to empty."""
    whole: bool = False
    """A rollout or a drain of nodes is under way: nothing is cordoned, and what is comes back."""
    acts: bool = True
    """False in Advise: nothing is cordoned, so the victims are those that would be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which pods go, which leave the endpoints, which come back."""

    desired: int
    """Replicas to write."""
    victims: tuple[Victim, ...] = ()
    cordons: tuple[Victim, ...] = ()
    uncordons: tuple[Victim, ...] = ()
    bars: tuple[Bar, ...] = ()
    sticky: bool = False
    """A cordoned pod still gets requests."""
    shrink: Shrink | None = None
    """What else could go; None where no more was asked for."""

    @property
    def cordoned(self) -> frozenset[str]:
        """Uids of the pods that are to be cordoned, and of those among the victims that are."""
        return frozenset(one.uid for one in self.cordons)


def plan_of(fleet: Fleet, memory: Memory, now: float) -> Plan:
    """Plan this round's part of a shrink, or of calling one off."""
    supply = fleet.asked.supply
    back = [coming_back(pod, "left behind by an earlier run") for pod in left_behind(fleet)]
    late = [pod for pod in supply.cordoned if timed_out(pod.view, fleet.deadline_s)]
    back += [coming_back(pod, why_late(pod.view)) for pod in late]
    bars = tuple(Bar(pod.view.uid, now + BARRED_S, reason_late(pod.view)) for pod in late)
    kept = [pod for pod in supply.cordoned if pod not in late]
    returning, why = wanted_back(fleet, kept)
    back += [coming_back(pod, why) for pod in returning]
    kept = [pod for pod in kept if pod not in returning]
    if fleet.whole or fleet.goal >= fleet.spec:
        desired = max(fleet.spec, fleet.goal)
        return Plan(desired=desired, uncordons=tuple(back), bars=bars)
    return shed(
        fleet, memory.barring(bars, now), kept, Plan(desired=0, uncordons=tuple(back), bars=bars)
    )


def shed(fleet: Fleet, memory: Memory, kept: Sequence[Pod], begun: Plan) -> Plan:
    """Give up what is empty, and more pods until the goal is reached."""
    more = fleet.spec - len(kept) - fleet.goal
    asked = replace(
        fleet.asked,
        replicas=more,
        cordoned=len(kept),
        returning=len(begun.uncordons),
        able=frozenset(
            pod.view.uid for pod in fleet.asked.supply.serving if able(pod, fleet, memory)
        ),
        unable=unable(fleet, memory),
    )
    found = shrink(asked) if more > 0 else None
    direct = found.victims if found else ()
    fresh = to_cordon(fleet, asked, kept, more - (found.replicas if found else 0))
    gone = [] if direct and kept else empty_ones(fleet, kept)
    if fresh and found:
        short = found.replicas + len(fresh) < more
        found = replace(found, why_less=found.why_less if short else "")
    cordons = [keeping(pod) for pod in kept if pod not in gone]
    victims = (*direct, *map(emptied, gone))
    planned = [giving_up(pod) for pod in fresh]
    return replace(
        begun,
        desired=fleet.spec
        - len(victims)
        - (found.uncreated if found else 0)
        - (0 if fleet.acts else len(planned)),
        victims=victims if fleet.acts else (*victims, *planned),
        cordons=(*cordons, *planned) if fleet.acts else (),
        sticky=any(sticky(pod.view) for pod in kept),
        shrink=found,
    )


def left_behind(fleet: Fleet) -> list[Pod]:
    """Pods with a cordon of ours that this run did not ask for, or asks for no more."""
    known = fleet.asked.supply.cordoned
    ours = (pod for pod in fleet.asked.supply.live if pod.view.cordoned_by == fleet.scaler)
    return [pod for pod in ours if pod not in known]


def wanted_back(fleet: Fleet, kept: Sequence[Pod]) -> tuple[list[Pod], str]:
    """Cordoned pods that are needed again, the most worth first, and why."""
    if fleet.whole:
        return list(kept), "the workload is being rolled out, or its nodes are drained"
    ranked = sorted(kept, key=worth_of(kept), reverse=True)
    needed = max(0, fleet.goal - (fleet.spec - len(kept)))
    stranded = [pod for pod in ranked[needed:] if out_of_order(fleet, pod)]
    if ranked[:needed]:
        return ranked[:needed] + stranded, "load has returned"
    started = [pod for pod in fleet.asked.supply.live if never_served(pod)]
    spare = len(started) if fleet.asked.kind in BY_COST else 0
    rest = [pod for pod in ranked if pod not in stranded]
    return stranded + rest[:spare], "a pod that has not served yet goes instead"


def out_of_order(fleet: Fleet, pod: Pod) -> bool:
    """Whether the workload would take other pods first: it takes them by their ordinals."""
    if fleet.asked.kind not in BY_ORDINAL:
        return False
    supply = fleet.asked.supply
    return pod not in by_ordinal(supply.live)[: len(supply.cordoned)]


def empty_ones(fleet: Fleet, kept: Sequence[Pod]) -> list[Pod]:
    """The cordoned pods that may go now and that the workload would take, in its order."""
    supply, kind = fleet.asked.supply, fleet.asked.kind
    if supply.surplus or any(pod.view.pending for pod in supply.live if kind in BY_COST):
        return []
    if kind in BY_COST:
        return sorted((pod for pod in kept if is_out(pod, fleet)), key=worth_of(kept))
    leading: list[Pod] = []
    for pod in by_ordinal(supply.live):
        if pod not in kept or not is_out(pod, fleet):
            break
        leading.append(pod)
    return leading


def is_out(pod: Pod, fleet: Fleet) -> bool:
    """Whether a pod is cordoned by us, empty and not Ready, all seen in this round."""
    view = pod.view
    ours = view.cordoned_by == fleet.scaler and view.phase is Phase.CORDONED
    return ours and view.empty and not view.ready


def to_cordon(fleet: Fleet, asked: Asked, kept: Sequence[Pod], more: int) -> list[Pod]:
    """The pods to be cordoned now, worth least first."""
    supply = asked.supply
    room = asked.share - asked.leaving - len(kept)
    most = min(more, room, len(supply.serving) - fleet.least)
    if most <= 0 or supply.surplus:
        return []
    ready = [pod for pod in supply.serving if pod.view.uid in asked.able]
    if asked.kind in BY_COST:
        return carried(asked, sorted(ready, key=worth_of(supply.live)))[:most]
    top = [] if kept else by_ordinal(supply.live)[:1]
    return carried(asked, [pod for pod in top if pod in ready])


def able(pod: Pod, fleet: Fleet, memory: Memory) -> bool:
    """Whether a pod can be cordoned now."""
    return fits(pod, fleet) and obstacle(pod, fleet, memory) is None


def fits(pod: Pod, fleet: Fleet) -> bool:
    """Whether a pod is one that could be given up at all."""
    return pod.load is not None and not young(pod.view, fleet.asked.cold_start_s)


def obstacle(pod: Pod, fleet: Fleet, memory: Memory) -> str | None:
    """Why a pod can't be cordoned, in a few words."""
    view = pod.view
    if not view.sidecar:
        return "it has no sidecar"
    if fleet.asked.kind not in BY_COST | BY_ORDINAL:
        return f"a {fleet.asked.kind} can't be told which pod to take"
    if view.guarded_by is not None:
        return view.guarded_by
    return view.no_cordon or memory.barred(view.uid)


def unable(fleet: Fleet, memory: Memory) -> str:
    """Why pods can't be cordoned: of those that could be given up, each reason once."""
    pods = [pod for pod in fleet.asked.supply.serving if fits(pod, fleet)]
    return "; ".join(sorted({why for pod in pods if (why := obstacle(pod, fleet, memory))}))


def timed_out(view: PodView, deadline_s: float) -> bool:
    """Whether a pod had its time to empty and is not."""
    return view.cordoned_s >= deadline_s and not view.empty


def sticky(view: PodView) -> bool:
    """Whether requests went on arriving for half a minute after the cordon."""
    arrived = view.arrival_age_s
    return arrived is not None and view.cordoned_s - arrived >= STICKY_S


def reason_late(view: PodView) -> str:
    """Why a pod was not empty in time, in one word."""
    return Reasons.STICKY_CLIENTS if sticky(view) else Reasons.DRAIN_TIMED_OUT


def why_late(view: PodView) -> str:
    """Why a pod was not empty in time."""
    if sticky(view):
        return f"requests kept arriving, the last {view.arrival_age_s:,.0f} s ago: sticky clients"
    return f"not empty {view.cordoned_s:,.0f} s after its cordon"


def coming_back(pod: Pod, why: str) -> Victim:
    """A pod to be uncordoned."""
    return Victim(pod=pod.view.name, uid=pod.view.uid, reason=why)


def giving_up(pod: Pod) -> Victim:
    """A pod to be cordoned, with what it is worth."""
    return Victim(pod=pod.view.name, uid=pod.view.uid, reason=f"worth least: {worth(pod)}")


def keeping(pod: Pod) -> Victim:
    """A pod that stays cordoned."""
    view = pod.view
    load = pod.load
    left = "its load is not known" if load is None else f"{requests_of(pod):,.0f} requests left"
    rest = load.seconds_to_empty if load is not None else None
    when = f", some {rest:,.0f} s more" if rest else ""
    return Victim(pod=view.name, uid=view.uid, reason=f"cordoned: {left}{when}")


def emptied(pod: Pod) -> Victim:
    """A pod that can go."""
    view = pod.view
    reason = f"cordoned {view.cordoned_s:,.0f} s ago and empty"
    return Victim(pod=view.name, uid=view.uid, reason=reason, cordoned=True)


def worth(pod: Pod) -> str:
    """What is lost with a pod, in numbers."""
    load = pod.load
    assert load is not None  # noqa: S101 - only pods whose load is known are chosen
    parts = [f"{requests_of(pod):,.0f} requests"]
    parts += [f"{load.used_tokens:,.0f} tokens pinned"] if load.used_tokens is not None else []
    if load.prompt_tokens_per_s is not None and load.prefix_hit_ratio is not None:
        parts.append(f"{load.prompt_tokens_per_s * load.prefix_hit_ratio:,.0f} prefix tokens/s")
    return ", ".join(parts)


def requests_of(pod: Pod) -> float:
    """Requests that a pod holds, as far as they are known."""
    load = pod.load
    return 0.0 if load is None else (load.running or 0.0) + (load.waiting or 0.0)
