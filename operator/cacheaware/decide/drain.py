"""The cancelable drain: pods that are given up leave the endpoints, and go when they are empty.

A cordoned pod counts as given up already: the fleet's current size is its replicas less the
cordoned pods. So when load returns they come back first, which takes a second, and only what they
can't carry is ordered. A pod that won't empty in time comes back as well, and is left alone for a
while: its clients keep their connections, and cutting them is not ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from cacheaware.decide.cordonable import candidates, fits, obstacle, obstacles
from cacheaware.decide.decision import Victim
from cacheaware.decide.drain_words import (
    coming_back,
    emptied,
    giving_up,
    keeping,
    reason_late,
    sticky,
    why_late,
)
from cacheaware.decide.memory import Bar, Memory
from cacheaware.decide.supply import Pod
from cacheaware.decide.victims import (
    BY_COST,
    BY_ORDINAL,
    Asked,
    Shrink,
    by_ordinal,
    by_worth,
    carried,
    shrink,
    uncreated_of,
)
from cacheaware_sidecar.phase import Phase

BARRED_S = 600.0
LEFT_BEHIND = "left behind by an earlier run or round"
WHOLE = "the workload is being rolled out, or Kubernetes takes pods of it away"
RETURNED = "load has returned"
OUT_OF_ORDER = "the workload would take other pods first"
NEW_ONE_GOES = "a pod that has not served yet goes instead"


class Fleet(Struct, frozen=True, kw_only=True):
    """What a plan is made from."""

    scaler: str
    """Uid of the scaler: cordons carry it."""
    spec: int
    """Replicas as the target asks for them."""
    goal: int
    """Replicas that are wanted, of which none is cordoned."""
    asked: Asked
    deadline_s: float
    """The longest time to empty."""
    whole: bool = False
    """A rollout or a drain of nodes is under way: nothing is cordoned, and what is comes back."""
    acts: bool = True
    """False in Advise: nothing is cordoned, so the victims are those that would be."""


class Plan(Struct, frozen=True, kw_only=True):
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
        """Uids of the pods that are given up: to be cordoned, kept so, or to go because they are.

        The last ones stay in it until their end is written: a write that fails is made again.
        """
        emptied = (one for one in self.victims if one.cordoned)
        return frozenset(one.uid for one in (*self.cordons, *emptied))


def plan_of(fleet: Fleet, memory: Memory, now: float) -> Plan:
    """Plan this round's part of a shrink, or of calling one off."""
    cordoned = fleet.asked.supply.cordoned
    back = [coming_back(pod, LEFT_BEHIND) for pod in left_behind(fleet)]
    lasted = memory.cordoned_seconds(now)
    late = [pod for pod in cordoned if timed_out(pod, fleet, lasted)]
    back += [coming_back(pod, why_late(pod.view, cordoned_for(pod, lasted))) for pod in late]
    bars = tuple(Bar(pod.view.uid, now + BARRED_S, reason_late(pod.view)) for pod in late)
    kept = without(cordoned, late)
    returning = wanted_back(fleet, kept)
    back += [coming_back(pod, why) for pod, why in returning]
    kept = without(kept, (pod for pod, _ in returning))
    begun = Plan(
        # What those that return can't carry is ordered in the next round, which sees it.
        desired=fleet.spec if returning else max(fleet.spec, fleet.goal),
        uncordons=tuple(back),
        bars=bars,
        sticky=any(sticky(pod.view) for pod in (*kept, *late)),
    )
    if fleet.whole or fleet.goal >= fleet.spec:
        return begun
    return shed(fleet, memory.barring(bars, now), now, kept, begun)


def shed(fleet: Fleet, memory: Memory, now: float, kept: list[Pod], begun: Plan) -> Plan:
    """Give up what is empty, and more pods until the goal is reached."""
    more = fleet.spec - len(kept) - fleet.goal
    asked = asked_for(fleet, memory, more, len(kept), begun)
    found = found_for(asked)
    direct = found.victims if found else ()
    fresh = to_cordon(asked, found) if found else []
    gone = [] if direct else empty_ones(fleet, kept)
    lasted = memory.cordoned_seconds(now)
    out = [emptied(pod, cordoned_for(pod, lasted)) for pod in gone]
    if found and fresh and found.replicas + len(fresh) >= more:
        found = replace(found, why_less="")
    planned = [giving_up(pod) for pod in fresh]
    staying = [keeping(pod) for pod in without(kept, gone)]
    advised = () if fleet.acts else tuple(planned)
    return replace(
        begun,
        desired=fleet.spec - len(out) - (found.replicas if found else 0) - len(advised),
        victims=(*direct, *out, *advised),
        cordons=(*staying, *planned) if fleet.acts else (),
        shrink=found,
    )


def without(pods: Iterable[Pod], others: Iterable[Pod]) -> list[Pod]:
    """Pods but for those others, in their order."""
    out = {pod.view.uid for pod in others}
    return [pod for pod in pods if pod.view.uid not in out]


def asked_for(fleet: Fleet, memory: Memory, more: int, kept: int, begun: Plan) -> Asked:
    """What the choice of further pods needs to know."""
    supply, kind, back = fleet.asked.supply, fleet.asked.kind, begun.uncordons
    out = {pod.view.uid for pod in supply.cordoned} | {one.uid for one in back}
    free = [pod for pod in supply.live if pod.view.uid not in out]
    fitting = [pod for pod in candidates(supply) if fits(pod, fleet.asked.cold_start_s)]
    able = [
        pod
        for pod in fitting
        if pod.view.uid not in out and obstacle(pod.view, kind, memory) is None
    ]
    return replace(
        fleet.asked,
        replicas=more,
        cordoned=kept,
        returning=len(back),
        able=frozenset(pod.view.uid for pod in able),
        direct=frozenset(pod.view.uid for pod in free if direct(pod, kind, memory)),
        unable="" if able else obstacles(fitting, kind, memory),
    )


def direct(pod: Pod, kind: str, memory: Memory) -> bool:
    """Whether it has to do that a pod was seen empty: it can't be cordoned.

    One that would not empty while it was cordoned has clients that keep their connections: between
    two looks it is no emptier than it was then.
    """
    unable = obstacle(pod.view, kind, memory) is not None
    return unable and memory.barred(pod.view.uid) is None


def found_for(asked: Asked) -> Shrink | None:
    """The part of a shrink that needs no cordon; None where no more is to go."""
    if asked.replicas <= 0:
        return None
    found = shrink(asked)
    hooked = any(pod.view.final_drain for pod in asked.supply.serving)
    left_to_hooks = hooked and not (asked.able or asked.cordoned or asked.returning)
    return replace(found, no_cordon=asked.unable) if left_to_hooks else found


def left_behind(fleet: Fleet) -> list[Pod]:
    """Pods with a cordon of ours that this run did not ask for, or asks for no more."""
    ours = (pod for pod in fleet.asked.supply.live if pod.view.cordoned_by == fleet.scaler)
    return without(ours, fleet.asked.supply.cordoned)


def wanted_back(fleet: Fleet, kept: Sequence[Pod]) -> list[tuple[Pod, str]]:
    """Cordoned pods that are to serve again, and why."""
    if fleet.whole:
        return [(pod, WHOLE) for pod in kept]
    needed = max(0, fleet.goal - (fleet.spec - len(kept)))
    ranked = most_worth(fleet, kept)
    back = [(pod, RETURNED) for pod in ranked[:needed]]
    rest = ranked[needed:]
    back += [(pod, OUT_OF_ORDER) for pod in out_of_order(fleet, rest)]
    if not back and fleet.asked.kind in BY_COST:
        new = sum(pod.never_served for pod in fleet.asked.supply.live)
        back += [(pod, NEW_ONE_GOES) for pod in rest[:new]]
    return back


def most_worth(fleet: Fleet, kept: Iterable[Pod]) -> list[Pod]:
    """Cordoned pods, the most worth first; those that are not known to be well come last."""
    ranked = by_worth(fleet.asked, kept)[::-1]
    return sorted(ranked, key=lambda pod: pod.load is None)


def out_of_order(fleet: Fleet, pods: Iterable[Pod]) -> list[Pod]:
    """Those before which the workload would take others: it takes them by their ordinals."""
    supply, kind = fleet.asked.supply, fleet.asked.kind
    if kind not in BY_ORDINAL:
        return []
    places = len(supply.cordoned) - uncreated_of(kind, supply)
    return without(pods, by_ordinal(supply.live)[: max(0, places)])


def empty_ones(fleet: Fleet, kept: Sequence[Pod]) -> list[Pod]:
    """The cordoned pods that may go now and that the workload would take, in its order.

    A ReplicaSet takes a pending pod before one that runs, whatever its cost; of the others that are
    not Ready it takes those with the lowest cost, which are ours.
    """
    supply, kind = fleet.asked.supply, fleet.asked.kind
    if supply.surplus or any(pod.view.pending for pod in supply.live if kind in BY_COST):
        return []
    if kind in BY_COST:
        return by_worth(fleet.asked, (pod for pod in kept if is_out(pod, fleet)))
    ours = {pod.view.uid for pod in kept}
    return list(
        takewhile(lambda pod: pod.view.uid in ours and is_out(pod, fleet), by_ordinal(supply.live))
    )


def is_out(pod: Pod, fleet: Fleet) -> bool:
    """Whether a pod is cordoned by us, empty and not Ready, all seen in this round."""
    view = pod.view
    ours = view.cordoned_by == fleet.scaler and view.phase is Phase.CORDONED
    return ours and pod.load is not None and view.empty and not view.ready


def to_cordon(asked: Asked, found: Shrink) -> list[Pod]:
    """The pods to be cordoned now, worth least first.

    None while Ready pods go without a cordon: a ReplicaSet would take the cordoned one in their
    place, whether or not it is empty. Of pods with ordinals one at a time: a StatefulSet waits for
    every pod below the one that it takes to be Ready (stateful_set_control.go, processCondemned).
    """
    supply = asked.supply
    most = min(asked.replicas, asked.room) - found.replicas
    gone = {one.uid for one in found.victims}
    if most <= 0 or supply.surplus or any(pod.view.uid in gone for pod in supply.serving):
        return []
    ready = [pod for pod in candidates(supply) if pod.view.uid in asked.able]
    if asked.kind in BY_COST:
        return carried(asked, by_worth(asked, ready))[:most]
    top = [] if asked.cordoned else by_ordinal(supply.live)[:1]
    return carried(asked, [pod for pod in top if pod.view.uid in asked.able])


def timed_out(pod: Pod, fleet: Fleet, lasted: Mapping[str, float]) -> bool:
    """Whether a pod had its time to empty and is not, as far as can be seen."""
    return cordoned_for(pod, lasted) >= fleet.deadline_s and not pod.view.empty


def cordoned_for(pod: Pod, lasted: Mapping[str, float]) -> float:
    """Seconds since a pod's cordon; its sidecar does not tell them while it is silent."""
    return max(pod.view.cordoned_s, lasted.get(pod.view.uid, 0.0))
