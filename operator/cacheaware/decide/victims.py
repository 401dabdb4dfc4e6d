"""Which pods may go at once, without a cordon: those that nobody misses.

That is a pod that has never served, or one that can't be cordoned and was seen empty twice in a
row. Where there is none and nothing can be cordoned, and the pods' own preStop hook waits for their
requests, one goes at a time. Who dies is the workload's choice, so the order is the workload's:

- a ReplicaSet takes pods that are not ready first, then the lowest deletion cost, which we set
  (Kubernetes, controller_utils.go, ActivePodsWithRanks);
- a StatefulSet and a LeaderWorkerSet take the highest ordinal;
- of any other kind the order is not known, so every pod must be one that may go.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile

from msgspec import Struct

from cacheaware.decide.decision import Victim
from cacheaware.decide.demand import Signal
from cacheaware.decide.fleet import PodView
from cacheaware.decide.supply import Pod, Supply
from cacheaware.decide.worth import ranked

IDLE_ROUNDS = 2
BY_COST = frozenset({"Deployment", "ReplicaSet"})
BY_ORDINAL = frozenset({"StatefulSet", "LeaderWorkerSet"})
ORDINAL = re.compile(r"-(\d{1,9})$")
NO_ORDINAL = float("inf")
FINAL_DRAIN = "its preStop hook waits for its requests; it could not be cordoned"
ONE_AT_A_TIME = "one pod at a time: none is empty, and none can be cordoned"
ALL_YOUNG = "all pods have served for less time than they took to start"
SHORT = "the other pods hold requests, are young, or are needed by the load"


class Shrink(Struct, frozen=True, kw_only=True):
    """The part of a shrink that is safe."""

    victims: tuple[Victim, ...] = ()
    uncreated: int = 0
    """Replicas that have no pod yet: taking them ends nothing."""
    why_less: str = ""
    """What kept more pods from going; empty when nothing did."""
    no_cordon: str = ""
    """Why no pod can be cordoned, where the pods' own preStop hooks have to do; else empty."""

    @property
    def replicas(self) -> int:
        """By how many replicas the target may be lowered."""
        return len(self.victims) + self.uncreated


class Asked(Struct, frozen=True, kw_only=True):
    """What a shrink is chosen from."""

    replicas: int
    """To take, one or more."""
    kind: str
    supply: Supply
    signals: tuple[Signal, ...]
    leaving: int
    """Pods on their way out that count against the share."""
    share: int
    """Pods that may be on their way out at a time."""
    least: int
    """Pods that must go on serving."""
    cold_start_s: float
    """The longest cold start that protects a young pod."""
    able: frozenset[str] = frozenset()
    """Uids of the pods that can be cordoned: none of them goes without that."""
    direct: frozenset[str] = frozenset()
    """Uids of the pods that can't be: that they were seen empty twice has to do."""
    cordoned: int = 0
    """Pods that are cordoned and not gone."""
    returning: int = 0
    """Pods that come back in this round, and are not Ready yet: a ReplicaSet would take them."""
    unable: str = ""
    """Why no pod can be cordoned."""

    @property
    def room(self) -> int:
        """Pods that may still be sent on their way out."""
        return self.share - self.leaving - self.cordoned


def shrink(asked: Asked) -> Shrink:
    """Choose the pods to give up."""
    if asked.supply.surplus:
        return Shrink(why_less="the pods of the shrink before are not gone")
    most = min(asked.replicas, asked.room)
    if most <= 0:
        return Shrink(why_less=on_their_way_out(asked.leaving + asked.cordoned))
    uncreated = min(most, uncreated_of(asked.kind, asked.supply))
    chosen = carried(asked, ordered(asked)[: most - uncreated])
    if chosen or uncreated:
        victims = tuple(victim(pod) for pod in chosen)
        short = len(victims) + uncreated < asked.replicas
        return Shrink(victims=victims, uncreated=uncreated, why_less=SHORT if short else "")
    if asked.able or asked.cordoned or asked.returning:
        return Shrink(why_less=SHORT)
    return last_resort(asked)


def on_their_way_out(count: int) -> str:
    """Why the share of the fleet lets no more go."""
    pods = "1 pod is on its" if count == 1 else f"{count} pods are on their"
    return f"{pods} way out already"


def last_resort(asked: Asked) -> Shrink:
    """One pod whose own hook drains it, when no other is on its way out."""
    if asked.leaving:
        return Shrink(why_less=on_their_way_out(asked.leaving))
    why = f" ({asked.unable})" if asked.unable else ""
    pod = drainable(asked)
    if pod is None:
        nothing = ALL_YOUNG if all_young(asked) else "no pod is empty, and none can be drained now"
        return Shrink(why_less=f"none can be cordoned{why}; {nothing}" if why else nothing)
    gone = Victim(pod=pod.view.name, uid=pod.view.uid, reason=FINAL_DRAIN)
    return Shrink(victims=(gone,), why_less=ONE_AT_A_TIME + why)


def all_young(asked: Asked) -> bool:
    """Whether each pod that serves is too young to be given up."""
    serving = asked.supply.serving
    return bool(serving) and all(young(pod.view, asked.cold_start_s) for pod in serving)


def uncreated_of(kind: str, supply: Supply) -> int:
    """Replicas without a pod that the workload would give up before any pod.

    A ReplicaSet has no others. Of a StatefulSet's those above the highest ordinal count from 0:
    where its ordinals begin higher they are not known, and none is counted.
    """
    if kind in BY_COST:
        return supply.missing
    if kind not in BY_ORDINAL:
        return 0
    highest = max((ordinal(pod.view.name) for pod in supply.live), default=-1)
    last = len(supply.live) + supply.missing - 1
    return min(supply.missing, int(max(0, last - highest)))


def ordered(asked: Asked) -> Sequence[Pod]:
    """The pods that may go, in the order in which they would; it ends before one that may not."""
    pods = asked.supply.live
    if asked.kind in BY_COST:
        return by_cost(asked, pods)
    if asked.kind in BY_ORDINAL:
        return leading(asked, by_ordinal(pods))
    return by_worth(asked, pods) if all(may_go(pod, asked) for pod in pods) else ()


def by_worth(asked: Asked, pods: Iterable[Pod]) -> list[Pod]:
    """Pods by what is lost with them, least first."""
    return ranked(pods, asked.supply.live, asked.supply.serving)


def by_cost(asked: Asked, pods: Sequence[Pod]) -> list[Pod]:
    """Unready pods go first, whatever their cost: one that may not go blocks the rest."""
    unready = [pod for pod in pods if not pod.view.ready]
    first = by_worth(asked, (pod for pod in unready if may_go(pod, asked)))
    if len(first) < len(unready):
        return first
    return first + by_worth(asked, (pod for pod in pods if pod.view.ready and may_go(pod, asked)))


def by_ordinal(pods: Iterable[Pod]) -> list[Pod]:
    """The highest ordinal first; a name without one comes first, and blocks."""
    return sorted(pods, key=lambda pod: (-ordinal(pod.view.name), pod.view.name))


def ordinal(name: str) -> float:
    """The number at the end of a pod's name."""
    found = ORDINAL.search(name)
    return int(found[1]) if found else NO_ORDINAL


def leading(asked: Asked, pods: Iterable[Pod]) -> list[Pod]:
    """The pods before the first one that may not go."""
    return list(takewhile(lambda pod: has_ordinal(pod) and may_go(pod, asked), pods))


def has_ordinal(pod: Pod) -> bool:
    """Whether a pod's name ends in a number: without one its place in the order is not known."""
    return ordinal(pod.view.name) != NO_ORDINAL


def drainable(asked: Asked) -> Pod | None:
    """The pod that would go next, if its own hook drains it and the others carry the load.

    Not one that somebody else holds: one that is full has taken itself out to come back.
    """
    willing = [
        pod
        for pod in next_to_go(asked)
        if pod.view.final_drain
        and not pod.view.cordoned_by
        and not young(pod.view, asked.cold_start_s)
    ]
    return next((pod for pod in by_worth(asked, willing) if carried(asked, [pod])), None)


def next_to_go(asked: Asked) -> Sequence[Pod]:
    """The pods of which the workload would take the first, or one that we choose."""
    pods = asked.supply.live
    if asked.kind in BY_COST:
        return [pod for pod in pods if not pod.view.ready] or pods
    if asked.kind in BY_ORDINAL:
        return by_ordinal(pods)[:1]
    spared = all(pod.view.final_drain or may_go(pod, asked) for pod in pods)
    return pods if spared else ()


def may_go(pod: Pod, asked: Asked) -> bool:
    """Whether nobody misses a pod: it never served, or was seen empty and is not young.

    A pod that can be cordoned has to be: between a look and its end requests may come.
    """
    if pod.never_served:
        return True
    if pod.view.uid not in asked.direct:
        return False
    seen_idle = pod.view.idle_rounds >= IDLE_ROUNDS and pod.load is not None and not pod.load.busy
    return seen_idle and not young(pod.view, asked.cold_start_s)


def young(view: PodView, cold_start_s: float) -> bool:
    """Whether a pod has served for less time than it took to start."""
    if view.serving_age_s is None:
        return False
    return view.serving_age_s < min(view.age_s - view.serving_age_s, cold_start_s)


def carried(asked: Asked, pods: Iterable[Pod]) -> list[Pod]:
    """The first of these pods without which enough go on serving, within all targets."""
    places = {id(pod): place for place, pod in enumerate(asked.supply.serving)}
    several = list(pods)
    going = [places.get(id(pod)) for pod in several]
    most = without_limit(going, len(places) - asked.least)
    for signal in asked.signals:
        most = without_shortage(going[:most], signal)
    return several[:most]


def without_limit(going: Sequence[int | None], spare: int) -> int:
    """How many of these may go until more than `spare` that serve would; None serves not.

    >>> without_limit([0, None, 1, 2, None], 2)
    3
    """
    for count, place in enumerate(going):
        spare -= place is not None
        if spare < 0 and place is not None:
            return count
    return len(going)


def without_shortage(going: Sequence[int | None], signal: Signal) -> int:
    """How many of these may go until the others no longer carry a signal's high demand."""
    rest = sum(signal.capacity)
    for count, place in enumerate(going):
        if place is not None:
            rest -= signal.capacity[place]
            if not signal.fits(rest):
                return count
    return len(going)


def victim(pod: Pod) -> Victim:
    """A pod to give up, with the reason."""
    view = pod.view
    if pod.never_served:
        reason = f"never served, {view.age_s:,.0f} s old"
    else:
        reason = f"empty for {view.idle_rounds} rounds, least worth keeping"
    return Victim(pod=view.name, uid=view.uid, reason=reason)
