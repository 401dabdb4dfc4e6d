"""Decisions in plain words: the reason in one word, the message in one sentence with numbers."""

from collections.abc import Iterable, Sequence
from math import fsum

from msgspec import Struct

from cacheaware.decide.bounds import Bounds
from cacheaware.decide.decision import Victim
from cacheaware.decide.demand import Signal, loaded
from cacheaware.decide.drain import Plan
from cacheaware.decide.lost_cache import emptied_words
from cacheaware.decide.policy import Policy
from cacheaware.decide.recommend import MEASURED, Recommendation
from cacheaware.decide.retained import retained_words
from cacheaware.decide.supply import Supply
from cacheaware.decide.victims import Shrink
from cacheaware.names import Reasons

NAMED = 3
"""So many pods are named in a message."""


UNCAPPED = "maxGpus does not apply: the pod template names no GPU, or can't be read"


class Outcome(Struct, frozen=True, kw_only=True):
    """A decision's way, step by step."""

    spec: int
    """Replicas as the target asks for them."""
    current: int
    """Of them those that are not cordoned: what the load is measured against."""
    supply: Supply
    policy: Policy
    recommendation: Recommendation
    stabilized: int
    """After the windows."""
    window_s: int
    """For shrinking, with what regretted shrinks add to it."""
    paced: int
    """After the rates."""
    bounds: Bounds
    bounded: int
    """Between the bounds."""
    goal: int
    """After the guards: wanted, none of them cordoned."""
    desired: int
    """Replicas to write; the end."""
    rollout: bool
    disrupted: bool
    """Kubernetes takes pods away."""
    plan: Plan
    barred: int
    """Pods that may not be cordoned for a while."""
    need: float | None = None
    """What the load needed in the last step, in pods at target."""
    gpus_each: int | None = None
    """GPUs of a replica; None where that is not known."""

    @property
    def asked(self) -> int:
        """What the load and the warm pool ask for, before windows, rates and bounds."""
        found = self.recommendation
        return found.replicas if found.raw is None else found.raw + self.policy.warm_pool

    @property
    def gpus_unknown(self) -> bool:
        """Whether `maxGpus` can't be applied."""
        return self.policy.max_gpus is not None and not self.gpus_each

    @property
    def shrink(self) -> Shrink | None:
        """The part of a shrink that needs no cordon."""
        return self.plan.shrink


def limits_of(outcome: Outcome) -> tuple[str, ...]:
    """What kept the decision from going where the load alone would have led."""
    found, bounds, asked = outcome.recommendation, outcome.bounds, outcome.asked
    served = bool(outcome.supply.served)
    limits = {
        "unknown": (found.raw is None and served) or (found.held and not kept_for_away(outcome)),
        "away": kept_for_away(outcome),
        "tolerance": found.tolerated,
        "starting": waits(outcome) or (found.raw is None and not served),
        "stabilization": outcome.stabilized != found.replicas,
        "rate": outcome.paced != outcome.stabilized,
        "warmPool": outcome.policy.warm_pool > 0 and found.raw is not None,
        bounds.floor.name: asked < bounds.floor.replicas,
        bounds.ceiling.name: asked > bounds.ceiling.replicas,
        Reasons.GPUS_UNKNOWN: outcome.gpus_unknown,
        "rollout": outcome.rollout and outcome.goal != outcome.bounded,
        "disruption": outcome.disrupted and outcome.bounded < outcome.current,
        "starts": failing(outcome),
        "drain": outcome.shrink is not None and bool(outcome.shrink.why_less),
        Reasons.CORDON_UNAVAILABLE: bool(outcome.shrink and outcome.shrink.no_cordon),
        Reasons.STICKY_CLIENTS: outcome.plan.sticky,
    }
    return tuple(name for name, holds in limits.items() if holds)


def reason_of(outcome: Outcome) -> str:
    """The one word: the first that holds."""
    if outcome.desired != outcome.spec:
        return changed(outcome)
    return next(reason for reason, holds in standing(outcome) if holds)


def changed(outcome: Outcome) -> str:
    """Why the replicas change."""
    found = outcome.recommendation
    if outcome.desired > outcome.spec and found.fallback:
        return Reasons.FALLBACK
    if outcome.desired > outcome.spec and found.silent:
        return Reasons.OVERLOADED_AND_SILENT
    if outcome.policy.mode != "Scale":
        return Reasons.ADVISED
    return Reasons.SCALED_UP if outcome.desired > outcome.spec else Reasons.SCALED_DOWN


def standing(outcome: Outcome) -> Iterable[tuple[str, bool]]:
    """Why the replicas stay, most telling first."""
    found, supply, current = outcome.recommendation, outcome.supply, outcome.current
    yield Reasons.ROLLOUT, outcome.rollout and outcome.bounded != current
    yield Reasons.PODS_DISRUPTED, outcome.disrupted and outcome.bounded < current
    yield Reasons.STARTS_FAILING, failing(outcome)
    yield Reasons.OVERLOADED_AND_SILENT, found.silent
    yield Reasons.FALLBACK, found.fallback
    yield Reasons.METRICS_UNKNOWN, found.raw is None and bool(supply.serving)
    yield Reasons.STICKY_CLIENTS, outcome.plan.sticky
    yield Reasons.DRAIN_TIMED_OUT, bool(outcome.plan.bars)
    yield Reasons.DRAINING, bool(outcome.plan.cordons)
    yield Reasons.UNCORDONED, bool(outcome.plan.uncordons)
    yield Reasons.DRAIN_UNAVAILABLE, outcome.bounded < current
    yield Reasons.NO_PODS, found.raw is None and bool(supply.away + supply.sleeping)
    yield Reasons.UNSCHEDULABLE, out_of_room(outcome)
    yield Reasons.START_OVERDUE, bool(supply.late)
    yield Reasons.AT_MAXIMUM, outcome.stabilized > current >= outcome.bounds.ceiling.replicas
    yield Reasons.AT_MINIMUM, found.replicas < current <= outcome.bounds.floor.replicas
    yield Reasons.STABILIZING, outcome.stabilized != found.replicas
    yield Reasons.RATE_LIMITED, outcome.paced != outcome.stabilized
    yield Reasons.WAITING_FOR_STARTING, waits(outcome) or found.raw is None
    yield Reasons.PODS_AWAY, kept_for_away(outcome)
    yield Reasons.METRICS_UNKNOWN, found.held
    yield Reasons.WITHIN_TOLERANCE, found.tolerated
    yield Reasons.STEADY, True


def kept_for_away(outcome: Outcome) -> bool:
    """Whether pods would go but for what others hold that are out of the endpoints."""
    found, supply = outcome.recommendation, outcome.supply
    known = all(one.known == len(supply.serving) for one in found.signals[:MEASURED])
    return found.held and known and bool(supply.away)


def failing(outcome: Outcome) -> bool:
    """Whether more pods were asked for, and those that were ordered can't start."""
    return outcome.bounded > outcome.current and outcome.supply.failing


def out_of_room(outcome: Outcome) -> bool:
    """Whether more pods are wanted than the nodes have room for."""
    ceiling = outcome.bounds.ceiling
    return ceiling.name == Reasons.UNSCHEDULABLE and outcome.stabilized > ceiling.replicas


def waits(outcome: Outcome) -> bool:
    """Whether pods that serve are too few, and the rest is on its way."""
    raw, serving = outcome.recommendation.raw, len(outcome.supply.serving)
    return raw is not None and serving < raw and bool(outcome.supply.on_their_way)


def message_of(outcome: Outcome, reason: str) -> str:
    """The sentence: what was seen, what it needs, what happens and why."""
    supply = outcome.supply
    parts = [seen(outcome), needs(outcome), unseen(supply), asleep(supply), coming(supply)]
    parts += [retained_words(supply), emptied_words(supply), moved(outcome.plan)]
    parts += [UNCAPPED if outcome.gpus_unknown else ""]
    return "; ".join([*(part for part in parts if part), verdict(outcome, reason)])


def seen(outcome: Outcome) -> str:
    """The load of the fleet."""
    supply, signals = outcome.supply, outcome.recommendation.signals
    if not supply.serving:
        out = f"no pod serves, {pods(len(supply.away))} out of the endpoints"
        return out if supply.away else "no pod serves"
    if not signals or outcome.recommendation.raw is None:
        return f"nothing is known of the load of {pods(len(supply.serving))}"
    kv, pending = signals[:MEASURED]
    return f"{cache(kv, supply)} and {waiting(pending, supply)}"


def cache(kv: Signal, supply: Supply) -> str:
    """How full the caches are, of the pods that tell."""
    if not kv.known:
        return f"the use of KV cache on {pods(len(supply.serving))} is not known"
    loads = [pod.load for pod in supply.serving if pod.load and pod.load.usage is not None]
    if kv.name == "kv-usage":
        share = percent(sum(load.usage or 0.0 for load in loads), len(loads))
        return f"KV is {share} full on {pods(len(loads))}"
    used = sum(load.used_tokens or 0.0 for load in loads)
    size = sum(load.capacity_tokens or 0.0 for load in loads)
    share = percent(used, size)
    return f"KV holds {used:,.0f} of {size:,.0f} tokens on {pods(len(loads))} ({share})"


def waiting(pending: Signal, supply: Supply) -> str:
    """How many requests wait now; the signal may count only those that have for a while."""
    if not pending.known:
        return "the number of waiting requests is not known"
    loads = (pod.growing_load for pod in loaded(supply))
    count = fsum([load.waiting or 0.0 for load in loads if load is not None])
    if not count:
        return "no request waits"
    return "1 request waits" if count == 1 else f"{count:,.0f} requests wait"


def needs(outcome: Outcome) -> str:
    """What the load asks for."""
    raw, pool = outcome.recommendation.raw, outcome.policy.warm_pool
    if raw is None:
        return ""
    return f"needs {raw:,}" + (f", and {pool:,} for the warm pool" if pool else "")


def unseen(supply: Supply) -> str:
    """What is not known, and how it counts."""
    silent = [pod for pod in supply.serving if pod.load is None]
    if not silent:
        return ""
    reasons = sorted({pod.view.unknown.value for pod in silent if pod.view.unknown})
    why = f" ({', '.join(reasons)})" if reasons else ""
    return f"{pods(len(silent))} unknown{why}: idle for growing, full for shrinking"


def asleep(supply: Supply) -> str:
    """Which pods hold a GPU and serve nothing."""
    count = len(supply.sleeping)
    if not count:
        return ""
    return f"{pods(count)} with a sleeping engine: no supply, and the first to go"


def coming(supply: Supply) -> str:
    """What is on its way, and what keeps it."""
    early = supply.coming
    soon = "" if supply.next_s is None else f", the next in some {supply.next_s:,.0f} s"
    words = [f"{early:,} starting{soon}"] if early else []
    words += [f"{supply.late:,} overdue"] if supply.late else []
    stuck = sorted({pod.view.stuck for pod in supply.starting + supply.overdue if pod.view.stuck})
    return ", ".join(words) + (f" ({', '.join(stuck)})" if stuck else "")


def moved(plan: Plan) -> str:
    """Which pods are out of the endpoints, and which come back."""
    groups = (("cordoned", plan.cordons), ("uncordoned", plan.uncordons))
    return "; ".join(word for verb, pods in groups for word in named(verb, pods))


def named(verb: str, victims: Sequence[Victim]) -> Iterable[str]:
    """The first of these pods by name, and how many more there are."""
    yield from (f"{verb} {one.pod}: {one.reason}" for one in victims[:NAMED])
    if len(victims) > NAMED:
        yield f"{len(victims) - NAMED:,} more {verb}"


def verdict(outcome: Outcome, reason: str) -> str:
    """What happens, and what limited it."""
    current, desired = outcome.spec, outcome.desired
    if desired == current:
        head = f"stays at {current:,}"
    else:
        advised = outcome.policy.mode != "Scale"
        head = f"{'would scale' if advised else 'scales'} from {current:,} to {desired:,}"
        head += cost(outcome)
    why = because(outcome, reason)
    return f"{head}: {why}" if why else head


def cost(outcome: Outcome) -> str:
    """GPUs of the step."""
    if not outcome.gpus_each:
        return ""
    step = (outcome.desired - outcome.spec) * outcome.gpus_each
    count = "1 GPU" if abs(step) == 1 else f"{abs(step):,} GPUs"
    return f" ({count} {'more' if step > 0 else 'less'})"


def because(outcome: Outcome, reason: str) -> str:
    """Why it is not what the load asks for."""
    policy, shrink = outcome.policy, outcome.shrink
    down = outcome.recommendation.replicas < outcome.current
    rules = policy.scale_down if down else policy.scale_up
    window_s = outcome.window_s if down else rules.stabilization_seconds
    regretted = window_s > rules.stabilization_seconds
    words = {
        Reasons.ROLLOUT: "a rollout is in progress",
        Reasons.PODS_DISRUPTED: "pods are being evicted: none is given up meanwhile",
        Reasons.DRAIN_UNAVAILABLE: shrink.why_less if shrink else "",
        Reasons.STARTS_FAILING: "the pods that were ordered can't start: no more are ordered",
        Reasons.STICKY_CLIENTS: "requests keep arriving at a cordoned pod: its clients keep their"
        " connections",
        Reasons.DRAIN_TIMED_OUT: "what was not empty in time is not cut: it serves again, and is"
        " left alone for ten minutes",
        Reasons.DRAINING: "a cordoned pod goes when it is empty",
        Reasons.UNCORDONED: "",
        Reasons.OVERLOADED_AND_SILENT: "most pods time out above target: one step up",
        Reasons.FALLBACK: f"after {policy.fallback_after_seconds} s without a metric the fallback"
        f" is {policy.fallback_replicas}",
        Reasons.METRICS_UNKNOWN: "what is unknown changes nothing",
        Reasons.PODS_AWAY: f"{pods(len(outcome.supply.away))} out of the endpoints may come back:"
        " none is given up meanwhile",
        Reasons.NO_PODS: "where no pod gets requests, the load is not known",
        Reasons.START_OVERDUE: "pods take longer to start than they should; what they were ordered"
        " for is not ordered again",
        Reasons.WAITING_FOR_STARTING: "what is starting counts as ordered",
        Reasons.AT_MAXIMUM: outcome.bounds.ceiling.told,
        Reasons.AT_MINIMUM: outcome.bounds.floor.told,
        Reasons.UNSCHEDULABLE: outcome.bounds.ceiling.told,
        Reasons.STABILIZING: f"the window of {window_s:,} s is not over"
        + (", longer for shrinks that were taken back" if regretted else ""),
        Reasons.RATE_LIMITED: "the rate policies allow no more now",
        Reasons.WITHIN_TOLERANCE: f"within the tolerance of {rules.tolerance_percent} %",
    }
    if reason in words:
        return words[reason]
    return "; ".join(also(outcome))


def also(outcome: Outcome) -> Iterable[str]:
    """What limited a change that happens."""
    shrink, bounds = outcome.shrink, outcome.bounds
    if outcome.paced != outcome.stabilized:
        yield "the rate policies allow no more now"
    if outcome.bounded != outcome.paced:
        yield bounds.floor.told if outcome.bounded > outcome.paced else bounds.ceiling.told
    if shrink is not None and shrink.why_less and outcome.desired != outcome.spec:
        yield shrink.why_less


def pods(count: int) -> str:
    """A number of pods in words."""
    return "1 pod" if count == 1 else f"{count:,} pods"


def percent(part: float, whole: float) -> str:
    """A share in percent."""
    return f"{part / whole:.0%}".replace("%", " %")
