"""The decision, step by step."""

from dataclasses import dataclass

from cacheaware.decide.decision import Decision, Victim
from cacheaware.decide.drain import Fleet, plan_of
from cacheaware.decide.explain import Outcome, limits_of, message_of, reason_of
from cacheaware.decide.fleet import FleetView, PodView
from cacheaware.decide.memory import Memory
from cacheaware.decide.policy import Policy
from cacheaware.decide.rates import paced
from cacheaware.decide.recommend import Recommendation, all_unknown, recommend
from cacheaware.decide.silence import overloaded_and_silent
from cacheaware.decide.supply import Supply, live_pods, supply_of
from cacheaware.decide.victims import Asked
from cacheaware.decide.windows import stabilized
from cacheaware.names import Reasons


def decide(fleet: FleetView, policy: Policy, memory: Memory, now: float) -> tuple[Decision, Memory]:
    """Decide how many replicas the target should have, why, and which pods to give up.

    Args:
        fleet: The target and its pods, as seen in this round.
        policy: What the user asked for.
        memory: Of the round before; `Memory.start` at the first. The returned one goes into the
            next round, after `Memory.scaled` when the decision was written.
        now: Seconds of any clock that does not jump.

    Returns:
        The decision and the memory for the next round. Odd data never raise.
    """
    spec = fleet.spec_replicas
    memory = memory.seen(spec, now, policy.round_seconds)
    hands_off = not_ours(fleet)
    if hands_off is not None or policy.mode != "Scale":
        memory = memory.cordoning(frozenset(), now)
    if hands_off is not None:
        return hands_off, memory.recommended(spec, now)
    # 1. What there is, and since when something has been amiss. Cordoned pods are given up already.
    memory, supply = looked(fleet, policy, memory, now)
    current = spec - len(supply.cordoned)
    # 2. What the load asks for: any signal grows, all signals shrink.
    found = recommend(current, supply, policy, memory, now)
    memory = memory.recommended(found.replicas, now)
    # 3. The windows: the lowest of the one for growing, the highest of the one for shrinking.
    steady = stabilized(
        current,
        found.replicas,
        memory.lowest(policy.scale_up.stabilization_seconds, now),
        memory.highest(policy.scale_down.stabilization_seconds, now),
    )
    # 4. The rates, and the bounds, which the user set and which therefore know no rate.
    pace = paced(current, steady, policy, memory.changes, now)
    bounded = max(policy.min_replicas, min(policy.max_replicas, pace))
    # 5. A rollout is not disturbed, a wave of failing starts not followed by another.
    goal = current if disturbs(fleet, supply, current, bounded) else bounded
    # 6. Cordoned pods come back without delay, and only pods that nobody misses are given up.
    if supply.cordoned:
        goal = max(goal, min(spec, policy.max_replicas, found.replicas))
    plan = plan_of(drained(fleet, policy, memory, Found(supply, found, goal), now), memory, now)
    if policy.mode == "Scale":
        memory = memory.cordoning(plan.cordoned, now).barring(plan.bars, now)
    outcome = Outcome(
        spec=spec,
        current=current,
        supply=supply,
        policy=policy,
        recommendation=found,
        stabilized=steady,
        paced=pace,
        bounded=bounded,
        goal=goal,
        desired=plan.desired,
        rollout=fleet.rollout,
        plan=plan,
        barred=len(memory.bars),
    )
    return told(outcome), memory


@dataclass(frozen=True, slots=True)
class Found:
    """What a round has found out so far."""

    supply: Supply
    recommendation: Recommendation
    goal: int


def drained(fleet: FleetView, policy: Policy, memory: Memory, found: Found, now: float) -> Fleet:
    """What the drain needs to know."""
    supply = found.supply
    current = fleet.spec_replicas - len(supply.cordoned)
    return Fleet(
        scaler=fleet.uid,
        spec=fleet.spec_replicas,
        goal=found.goal,
        asked=Asked(
            replicas=0,
            kind=fleet.target_kind,
            supply=supply,
            signals=found.recommendation.signals,
            leaving=leaving(supply, policy, memory, now),
            share=max(1, current * policy.drain_share_percent // 100),
            cold_start_s=policy.startup_budget_seconds,
        ),
        least=min(max(1, policy.min_replicas), len(supply.serving)),
        deadline_s=policy.drain_deadline_seconds,
        whole=fleet.rollout or any(pod.disrupted for pod in fleet.pods),
        acts=policy.mode == "Scale",
    )


def not_ours(fleet: FleetView) -> Decision | None:
    """A decision to keep off: paused by somebody, or owned by somebody else."""
    current = fleet.spec_replicas
    if current <= 0:
        reason, limit = Reasons.PAUSED, "paused"
        message = "replicas were set to 0: paused until somebody raises them"
    elif fleet.conflict is not None:
        reason, limit = Reasons.CONFLICT, "conflict"
        message = f"{fleet.conflict} owns the replicas: nothing is written"
    else:
        return None
    ours = [pod for pod in fleet.pods if fleet.uid and pod.cordoned_by == fleet.uid]
    return Decision(
        desired=current,
        current=current,
        reason=reason,
        message=message,
        limited_by=(limit,),
        uncordons=tuple(Victim(pod=pod.name, uid=pod.uid, reason=limit) for pod in ours),
    )


def looked(fleet: FleetView, policy: Policy, memory: Memory, now: float) -> tuple[Memory, Supply]:
    """Sort the pods, and remember since when some are missing, silent or unknown."""
    live = live_pods(fleet)
    missing = len(live) < fleet.spec_replicas
    gone_for = now - memory.missing_since if missing and memory.missing_since is not None else 0.0
    cordons = frozenset(pod.uid for pod in live if still_cordoned(pod, fleet, memory))
    memory = memory.cordoning(cordons, now)
    supply = supply_of(fleet, policy, gone_for, cordons)
    memory = memory.marked(
        now,
        unknown=all_unknown(supply),
        missing=missing,
        leaving=supply.terminating > 0,
        silent=overloaded_and_silent(supply, policy),
    )
    return memory, supply


def still_cordoned(pod: PodView, fleet: FleetView, memory: Memory) -> bool:
    """Whether a pod that was given up still is: what is not known of it changes nothing."""
    if pod.uid not in memory.cordons:
        return False
    return pod.cordoned_by == fleet.uid or pod.load is None


def disturbs(fleet: FleetView, supply: Supply, current: int, replicas: int) -> bool:
    """Whether a change would hit a rollout, or order more pods that won't start.

    That is any shrink in a rollout, and a growth of one that is stuck.
    """
    if replicas > current and supply.failing:
        return True
    return fleet.rollout and (replicas < current or supply.late > 0)


def leaving(supply: Supply, policy: Policy, memory: Memory, now: float) -> int:
    """Pods on their way out that a shrink waits for; a pod that never ends is not waited for."""
    waits = memory.left_for(now) < policy.drain_deadline_seconds
    return supply.terminating if waits else 0


def told(outcome: Outcome) -> Decision:
    """The decision in full."""
    reason, supply, plan = reason_of(outcome), outcome.supply, outcome.plan
    return Decision(
        desired=outcome.desired,
        current=outcome.spec,
        reason=reason,
        message=message_of(outcome, reason),
        terms=outcome.recommendation.terms,
        raw=outcome.recommendation.raw,
        limited_by=limits_of(outcome),
        victims=plan.victims,
        cordons=plan.cordons,
        uncordons=plan.uncordons,
        serving=len(supply.serving),
        starting=supply.on_their_way - supply.late,
        overdue=supply.late,
        unknown=sum(pod.load is None for pod in supply.served),
        inputs=inputs_of(outcome),
    )


def inputs_of(outcome: Outcome) -> dict[str, float | int | str | None]:
    """The fleet's sums by name, for those who look behind the terms."""
    supply = outcome.supply
    loads = [pod.load for pod in supply.serving if pod.load is not None]
    running = [load.running for load in loads if load.running is not None]
    prompts = [load.prompt_tokens_per_s for load in loads if load.prompt_tokens_per_s is not None]
    return {
        "cordoned": len(supply.cordoned),
        "away": len(supply.away),
        "terminating": supply.terminating,
        "missing": supply.missing,
        "running": sum(running) if running else None,
        "promptTokensPerSecond": sum(prompts) if prompts else None,
        "recommended": outcome.recommendation.replicas,
        "stabilized": outcome.stabilized,
        "paced": outcome.paced,
        "bounded": outcome.bounded,
        "barred": outcome.barred,
    }
