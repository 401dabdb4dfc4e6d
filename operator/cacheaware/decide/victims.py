"""Which pods to give up, and which of them may go at once: those that nobody misses.

That is a pod that has never served, or one that can't be cordoned and was seen empty twice in a
row. Where there is none and nothing can be cordoned, and the pods' own preStop hook waits for their
requests, one goes at a time. Who dies is the workload's choice, so the order is the workload's:

- a ReplicaSet takes pods that are not ready first, then the lowest deletion cost, which we set
  (Kubernetes, controller_utils.go, ActivePodsWithRanks);
- a StatefulSet and a LeaderWorkerSet take the highest ordinal;
- of any other kind the order is not known, so every pod must be one that may go.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cacheaware.decide.decision import Victim
from cacheaware.decide.demand import Signal
from cacheaware.decide.fleet import PodView
from cacheaware.decide.supply import MOST, STARTING, Load, Pod, Supply, within

IDLE_ROUNDS = 2
BY_COST = frozenset({"Deployment", "ReplicaSet"})
BY_ORDINAL = frozenset({"StatefulSet", "LeaderWorkerSet"})
ORDINAL = re.compile(r"-(\d{1,9})$")
FINAL_DRAIN = "its preStop hook waits for its requests; it could not be cordoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink:
    """The part of a shrink that is safe."""

    victims: tuple[Victim, ...] = ()
    uncreated: int = 0
    """Replicas that have no pod yet: taking them ends nothing."""
    draining: bool = False
    """The victim may hold requests, and its preStop hook waits for them."""
    why_less: str = ""
    """What kept more pods from going; empty when nothing did."""

    @property
    def replicas(self) -> int:
        """By how many replicas the target may be lowered."""
        return len(self.victims) + self.uncreated


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
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
    cold_start_s: float
    """The longest cold start that protects a young pod."""
    able: frozenset[str] = frozenset()
    """Uids of the pods that can be cordoned: none of them goes without that."""
    cordoned: int = 0
    """Pods that are cordoned and not gone."""
    returning: int = 0
    """Pods that come back in this round, and are not Ready yet: a ReplicaSet would take them."""
    unable: str = ""
    """Why no pod can be cordoned."""


def shrink(asked: Asked) -> Shrink:
    """Choose the pods to give up."""
    supply = asked.supply
    if supply.surplus:
        return Shrink(why_less="the pods of the shrink before are not gone")
    most = min(asked.replicas, asked.share - asked.leaving - asked.cordoned)
    if most <= 0:
        out = asked.leaving + asked.cordoned
        return Shrink(why_less=f"{out} pods are on their way out already")
    uncreated = min(most, supply.missing) if asked.kind in BY_COST else 0
    chosen = carried(asked, ordered(asked)[: most - uncreated])
    if chosen or uncreated:
        victims = tuple(victim(pod) for pod in chosen)
        short = len(victims) + uncreated < asked.replicas
        return Shrink(victims=victims, uncreated=uncreated, why_less=SHORT if short else "")
    if asked.able or asked.cordoned or asked.returning:
        return Shrink(why_less=SHORT)
    return last_resort(asked)


ONE_AT_A_TIME = "one pod at a time: none is empty, and none can be cordoned"
SHORT = "the other pods hold requests, are young, or are needed by the load"


def last_resort(asked: Asked) -> Shrink:
    """One pod whose own hook drains it, when no other is on its way out."""
    pod = drainable(asked)
    if pod is None or asked.leaving or not carried(asked, [pod]):
        return Shrink(why_less="no pod is empty, and none can be drained now")
    view = pod.view
    gone = Victim(pod=view.name, uid=view.uid, reason=FINAL_DRAIN)
    why = f"{ONE_AT_A_TIME} ({asked.unable})" if asked.unable else ONE_AT_A_TIME
    return Shrink(victims=(gone,), draining=True, why_less=why)


def ordered(asked: Asked) -> Sequence[Pod]:
    """The pods that may go, in the order in which they would; it ends before one that may not."""
    pods = asked.supply.live
    if asked.kind in BY_COST:
        return by_cost(asked, pods)
    if asked.kind in BY_ORDINAL:
        return leading(asked, by_ordinal(pods))
    ranked = sorted(pods, key=worth_of(pods))
    return ranked if all(may_go(pod, asked) for pod in pods) else []


def by_cost(asked: Asked, pods: Sequence[Pod]) -> list[Pod]:
    """Unready pods go first, whatever their cost: one that may not go blocks the rest."""
    unready = [pod for pod in pods if not pod.view.ready]
    first = [pod for pod in unready if may_go(pod, asked)]
    first.sort(key=worth_of(pods))
    if len(first) < len(unready):
        return first
    rest = [pod for pod in pods if pod.view.ready and may_go(pod, asked)]
    return first + sorted(rest, key=worth_of(pods))


def by_ordinal(pods: Iterable[Pod]) -> list[Pod]:
    """The highest ordinal first; a name without one comes first, and blocks."""
    return sorted(pods, key=lambda pod: (-ordinal(pod.view.name), pod.view.name))


def ordinal(name: str) -> float:
    """The number at the end of a pod's name."""
    found = ORDINAL.search(name)
    return int(found[1]) if found else float("inf")


def leading(asked: Asked, pods: Iterable[Pod]) -> list[Pod]:
    """The pods before the first one that may not go."""
    chosen = []
    for pod in pods:
        if ordinal(pod.view.name) == float("inf") or not may_go(pod, asked):
            break
        chosen.append(pod)
    return chosen


def drainable(asked: Asked) -> Pod | None:
    """The pod that would go next, if its own hook drains it."""
    pods = asked.supply.live
    willing = [
        pod
        for pod in next_to_go(asked)
        if pod.view.final_drain and not young(pod.view, asked.cold_start_s)
    ]
    return min(willing, key=worth_of(pods), default=None)


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
    if never_served(pod):
        return True
    if pod.view.uid in asked.able:
        return False
    seen_idle = pod.view.idle_rounds >= IDLE_ROUNDS and pod.load is not None and not busy(pod.load)
    return seen_idle and not young(pod.view, asked.cold_start_s)


def never_served(pod: Pod) -> bool:
    """Whether a pod is still starting, out of the endpoints and without a request."""
    starting = pod.view.phase in STARTING and not pod.view.ready
    return starting and not (pod.load is not None and busy(pod.load))


def busy(load: Load) -> bool:
    """Whether a pod holds requests, or may."""
    return load.running != 0 or load.waiting != 0


def young(view: PodView, cold_start_s: float) -> bool:
    """Whether a pod has served for less time than it took to start."""
    if view.serving_age_s is None:
        return False
    return view.serving_age_s < min(view.age_s - view.serving_age_s, cold_start_s)


def carried(asked: Asked, pods: Sequence[Pod]) -> list[Pod]:
    """The first of these pods without which the serving rest stays within all targets."""
    places = {id(pod): place for place, pod in enumerate(asked.supply.serving)}
    rest = [sum(signal.capacity) for signal in asked.signals]
    chosen: list[Pod] = []
    for pod in pods:
        if (place := places.get(id(pod))) is not None:
            rest = [
                size - signal.capacity[place]
                for size, signal in zip(rest, asked.signals, strict=True)
            ]
            if not all(map(Signal.fits, asked.signals, rest)):
                break
        chosen.append(pod)
    return chosen


def worth_of(pods: Sequence[Pod]) -> Callable[[Pod], tuple[float | str, ...]]:
    """What is lost with a pod of these: a key for sorting, least first.

    Never served before served: without a node first, as a ReplicaSet does it, then the youngest.
    Then whether it is the last with a LoRA adapter in use, requests, pinned tokens, prefix tokens
    served lately, prefix hit ratio, age. An unknown hit ratio ranks between the known ones.
    """
    middle, holders = middle_hit_ratio(pods), adapter_holders(pods)

    def key(pod: Pod) -> tuple[float | str, ...]:
        view, load = pod.view, pod.load
        age = within(view.age_s, MOST) or 0.0
        if never_served(pod):
            return (0, view.node is not None, 0, 0, 0, 0, 0, age, view.name)
        if load is None:
            return (2, 0, 0, 0, 0, 0, 0, age, view.name)
        ratio = middle if load.prefix_hit_ratio is None else load.prefix_hit_ratio
        requests = (load.running or 0) + (load.waiting or 0)
        prefix = (load.prompt_tokens_per_s or 0) * ratio
        last = any(holders[adapter] == 1 for adapter in load.adapters)
        pinned = (load.used_tokens or 0, load.usage or 0)
        return (1, last, requests, *pinned, prefix, ratio, age, view.name)

    return key


def adapter_holders(pods: Iterable[Pod]) -> Counter[str]:
    """How many pods use each LoRA adapter."""
    return Counter(name for pod in pods if pod.load is not None for name in set(pod.load.adapters))


def middle_hit_ratio(pods: Iterable[Pod]) -> float:
    """The middle of the known hit ratios."""
    loads = (pod.load for pod in pods)
    known = [load.prefix_hit_ratio for load in loads if load and load.prefix_hit_ratio is not None]
    return (min(known) + max(known)) / 2 if known else 0.0


def victim(pod: Pod) -> Victim:
    """A pod to give up, with the reason."""
    view = pod.view
    if never_served(pod):
        reason = f"never served, {view.age_s:,.0f} s old"
    else:
        reason = f"empty for {view.idle_rounds} rounds, least worth keeping"
    return Victim(pod=view.name, uid=view.uid, reason=reason)
