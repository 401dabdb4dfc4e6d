"""The decision, step by step."""

from collections.abc import Iterable

from msgspec.structs import replace

from cacheaware.decide.bounds import bounds_of
from cacheaware.decide.cold_start import expected_s, lead_s
from cacheaware.decide.decision import Decision, Victim
from cacheaware.decide.demand import Signal, signals_of, with_past
from cacheaware.decide.drain import Fleet, plan_of
from cacheaware.decide.explain import Outcome, limits_of, message_of, reason_of
from cacheaware.decide.fleet import FleetView, PodView
from cacheaware.decide.forecast import judged
from cacheaware.decide.history import noted
from cacheaware.decide.lost_cache import without_hits
from cacheaware.decide.memory import Memory
from cacheaware.decide.need import moment_of
from cacheaware.decide.policy import Policy
from cacheaware.decide.pool import with_pool, without_pool
from cacheaware.decide.rates import paced
from cacheaware.decide.recommend import Recommendation, all_unknown, recommend
from cacheaware.decide.regret import window_s
from cacheaware.decide.retained import without_retained
from cacheaware.decide.silence import overloaded_and_silent
from cacheaware.decide.sleeping import awake, with_sleeping
from cacheaware.decide.supply import Supply, live_pods, supply_of
from cacheaware.decide.time_to_empty import with_time_to_empty
from cacheaware.decide.victims import Asked
from cacheaware.decide.windows import stabilized
from cacheaware.decide.zero import at_zero, may_sleep
from cacheaware.names import Reasons
from cacheaware_sidecar.phase import Phase


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
    bounds = bounds_of(policy, fleet)
    if spec == 0:
        woken = at_zero(fleet, policy, bounds.ceiling.replicas)
        return woken, memory.recommended(woken.desired, now)
    # 1. What there is, and since when something has been amiss. Cordoned pods are given up already.
    memory, supply = looked(fleet, policy, memory, now)
    current = spec - len(supply.cordoned)
    # 2. What the load asks for: any signal grows, all signals shrink.
    memory, signals = foreseen(fleet, supply, policy, memory, now)
    working = awake(current, supply)
    found = recommend(
        without_pool(working, policy), supply, signals, memory, policy=policy, now=now
    )
    found = with_sleeping(with_pool(found, working, policy), current, supply)
    memory = memory.recommended(found.replicas, now)
    # 3. The windows: the lowest of the one for growing, the highest of the one for shrinking.
    window = window_s(policy.scale_down.stabilization_seconds, memory.changes, now)
    steady = stabilized(
        current,
        found.replicas,
        memory.lowest(policy.scale_up.stabilization_seconds, now),
        memory.highest(window, now),
    )
    # 4. The rates, and the bounds, which are the user's wishes and therefore know no rate.
    pace = paced(current, steady, policy, memory, now)
    bounded = bounds.within(pace)
    # 5. A rollout or a drain of nodes is not disturbed, a wave of failing starts not followed by
    # another.
    gone = leaving(supply, policy, memory, now)
    disrupted = is_disrupted(fleet, gone)
    goal = current if disturbs(fleet, supply, current, bounded, disrupted=disrupted) else bounded
    # 6. Cordoned pods come back without delay, and only pods that nobody misses are given up.
    if supply.cordoned:
        goal = max(goal, min(spec, bounds.ceiling.replicas, found.replicas))
    whole = fleet.rollout or disrupted
    asked = asked_of(fleet, policy, supply, found, gone)
    plan = plan_of(drained(fleet, policy, asked, goal, whole=whole), memory, now)
    if policy.mode == "Scale":
        memory = memory.cordoning(plan.cordoned, now).barring(plan.bars, now)
    outcome = Outcome(
        spec=spec,
        current=current,
        supply=supply,
        policy=policy,
        recommendation=found,
        stabilized=steady,
        window_s=window,
        paced=pace,
        bounds=bounds,
        bounded=bounded,
        goal=goal,
        desired=plan.desired,
        rollout=fleet.rollout,
        disrupted=disrupted,
        plan=plan,
        barred=len(memory.bars),
        need=memory.history.need,
        gpus_each=fleet.around.gpus_per_replica,
    )
    return told(outcome), memory


def foreseen(
    fleet: FleetView, supply: Supply, policy: Policy, memory: Memory, now: float
) -> tuple[Memory, tuple[Signal, ...]]:
    """Measure the demand, note it in the history, and add what the history tells."""
    signals = signals_of(supply, policy)
    if not any(signal.known for signal in signals):
        return memory, signals
    ahead_s = lead_s(fleet.learned.starts) + policy.round_seconds
    speed = fleet.learned.prefill_tokens_per_s
    seen = moment_of(
        supply,
        signals[0],
        policy,
        memory.history,
        prefill_tokens_per_s=speed,
        seconds=policy.round_seconds,
    )
    window = policy.scale_down.stabilization_seconds
    history = judged(noted(memory.history, seen, now), ahead_s, window)
    return replace(memory, history=history), with_past(signals, history, policy, ahead_s)


def asked_of(
    fleet: FleetView, policy: Policy, supply: Supply, found: Recommendation, gone: int
) -> Asked:
    """What a shrink of any size would be chosen from."""
    floor = 0 if may_sleep(policy, fleet) else max(1, policy.min_replicas)
    return Asked(
        replicas=0,
        kind=fleet.target_kind,
        supply=supply,
        signals=found.signals,
        leaving=gone,
        share=max(1, fleet.spec_replicas * policy.drain_share_percent // 100),
        least=min(floor, len(supply.serving)),
        cold_start_s=expected_s(fleet.learned.starts) or policy.startup_budget_seconds,
    )


def drained(fleet: FleetView, policy: Policy, asked: Asked, goal: int, *, whole: bool) -> Fleet:
    """What the drain needs to know."""
    return Fleet(
        scaler=fleet.uid,
        spec=fleet.spec_replicas,
        goal=goal,
        asked=asked,
        deadline_s=policy.drain_deadline_seconds,
        whole=whole,
        acts=policy.mode == "Scale",
    )


def not_ours(fleet: FleetView) -> Decision | None:
    """A decision to keep off: paused by somebody, or owned by somebody else."""
    current, wake, contested = fleet.spec_replicas, fleet.around.wake, fleet.around.contested
    if current <= 0 and not (wake is not None and wake.asleep):
        reason, limit = Reasons.PAUSED, "paused"
        message = "replicas were set to 0: paused until somebody raises them"
    elif fleet.conflict is not None:
        reason, limit = Reasons.CONFLICT, "conflict"
        message = f"{fleet.conflict} owns the replicas: nothing is written"
    elif contested is not None and contested.again_s > 0:
        reason, limit = Reasons.REPLICAS_CONTESTED, "contested"
        message = f"{contested.told}; written again in {contested.again_s:,.0f} s"
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
    given_up = memory.cordons
    cordons = frozenset(
        pod.uid for pod in live if pod.uid in given_up and still_cordoned(pod, fleet)
    )
    memory = memory.cordoning(cordons, now)
    supply = without_hits(supply_of(fleet, policy, gone_for, cordons))
    supply = with_time_to_empty(without_retained(supply, policy), fleet.learned.work)
    starting = supply.starting + supply.overdue
    memory = memory.failing(
        frozenset(pod.view.uid for pod in starting if pod.failing),
        frozenset(pod.view.uid for pod in starting),
        now,
    )
    supply = replace(supply, failed=frozenset(one.uid for one in memory.failed))
    memory = memory.marked(
        now,
        unknown=all_unknown(supply),
        missing=missing,
        leaving=supply.terminating > 0,
        silent=overloaded_and_silent(supply, policy),
    )
    return memory, supply


def still_cordoned(pod: PodView, fleet: FleetView) -> bool:
    """Whether a pod that was given up still is.

    While nothing is known of it, it is as it was last seen: cordoned, or not yet if it fell silent
    just after its cordon, and that call was not refused.
    """
    unseen = pod.load is None and pod.phase is Phase.SERVING and pod.no_cordon is None
    return pod.cordoned_by == fleet.uid or unseen


def disturbs(
    fleet: FleetView, supply: Supply, current: int, replicas: int, *, disrupted: bool
) -> bool:
    """Whether a change would hit a rollout, or order more pods that won't start.

    That is any shrink in a rollout or while Kubernetes takes pods away, and a growth of a rollout
    that is stuck.
    """
    if replicas > current and supply.failing:
        return True
    if replicas < current:
        return fleet.rollout or disrupted
    return fleet.rollout and supply.late > 0


def is_disrupted(fleet: FleetView, leaving: int) -> bool:
    """Whether pods are evicted; one that is deleted and never ends is not waited for."""
    return any(pod.disrupted and (leaving > 0 or not pod.terminating) for pod in fleet.pods)


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
        starting=supply.coming,
        overdue=supply.late,
        unknown=sum(pod.load is None for pod in supply.served),
        inputs=inputs_of(outcome),
    )


def inputs_of(outcome: Outcome) -> dict[str, float | int | str | None]:
    """The fleet's sums by name, for those who look behind the terms."""
    supply = outcome.supply
    loads = [pod.load for pod in supply.serving if pod.load is not None]
    running = known(load.running for load in loads)
    out = known(pod.load.requests for pod in supply.cordoned if pod.load is not None)
    prompts = known(load.prompt_tokens_per_s for load in loads)
    return {
        "cordoned": len(supply.cordoned),
        "cordonedRequests": sum(out) if out else None,
        "empty": sum(pod.view.empty for pod in supply.cordoned),
        "barred": outcome.barred,
        "away": len(supply.away),
        "sleeping": len(supply.sleeping),
        "terminating": supply.terminating,
        "missing": supply.missing,
        "running": sum(running) if running else None,
        "promptTokensPerSecond": sum(prompts) if prompts else None,
        "need": outcome.need,
        "gpusPerReplica": outcome.gpus_each,
        "gpus": None if outcome.gpus_each is None else outcome.gpus_each * outcome.desired,
        "warmPool": outcome.policy.warm_pool or None,
        "recommended": outcome.recommendation.replicas,
        "stabilized": outcome.stabilized,
        "paced": outcome.paced,
        "bounded": outcome.bounded,
        "goal": outcome.goal,
    }


def known(numbers: Iterable[float | None]) -> list[float]:
    """The numbers that are known."""
    return [number for number in numbers if number is not None]
