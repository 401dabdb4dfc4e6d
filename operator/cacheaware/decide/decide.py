"""The decision, step by step."""

from cacheaware.decide.decision import Decision
from cacheaware.decide.explain import Outcome, limits_of, message_of, reason_of
from cacheaware.decide.fleet import FleetView
from cacheaware.decide.memory import Memory
from cacheaware.decide.policy import Policy
from cacheaware.decide.rates import paced
from cacheaware.decide.recommend import all_unknown, recommend
from cacheaware.decide.silence import overloaded_and_silent
from cacheaware.decide.supply import Supply, live_pods, supply_of
from cacheaware.decide.victims import Asked, shrink
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
    current = fleet.spec_replicas
    memory = memory.seen(current, now, policy.round_seconds)
    if (hands_off := not_ours(fleet)) is not None:
        return hands_off, memory.recommended(current, now)
    # 1. What there is, and since when something has been amiss.
    memory, supply = looked(fleet, policy, memory, now)
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
    # 5. A rollout is not disturbed, and only pods that nobody misses are given up.
    desired = current if disturbs(fleet, supply, bounded) else bounded
    safe = None
    if desired < current:
        safe = shrink(
            Asked(
                replicas=current - desired,
                kind=fleet.target_kind,
                supply=supply,
                signals=found.signals,
                leaving=leaving(supply, policy, memory, now),
                share=max(1, current * policy.drain_share_percent // 100),
                cold_start_s=policy.startup_budget_seconds,
            )
        )
        desired = current - safe.replicas
    outcome = Outcome(
        current=current,
        supply=supply,
        policy=policy,
        recommendation=found,
        stabilized=steady,
        paced=pace,
        bounded=bounded,
        desired=desired,
        rollout=fleet.rollout,
        shrink=safe,
    )
    return told(outcome), memory


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
    return Decision(
        desired=current, current=current, reason=reason, message=message, limited_by=(limit,)
    )


def looked(fleet: FleetView, policy: Policy, memory: Memory, now: float) -> tuple[Memory, Supply]:
    """Sort the pods, and remember since when some are missing, silent or unknown."""
    live = live_pods(fleet)
    missing = len(live) < fleet.spec_replicas
    gone_for = now - memory.missing_since if missing and memory.missing_since is not None else 0.0
    supply = supply_of(fleet, policy, gone_for)
    memory = memory.marked(
        now,
        unknown=all_unknown(supply),
        missing=missing,
        leaving=supply.terminating > 0,
        silent=overloaded_and_silent(supply, policy),
    )
    return memory, supply


def disturbs(fleet: FleetView, supply: Supply, replicas: int) -> bool:
    """Whether a change would hit a rollout: any shrink, and a growth of one that is stuck."""
    if not fleet.rollout:
        return False
    return replicas < fleet.spec_replicas or supply.late > 0


def leaving(supply: Supply, policy: Policy, memory: Memory, now: float) -> int:
    """Pods on their way out that a shrink waits for; a pod that never ends is not waited for."""
    waits = memory.left_for(now) < policy.drain_deadline_seconds
    return supply.terminating if waits else 0


def told(outcome: Outcome) -> Decision:
    """The decision in full."""
    reason, supply, shrunk = reason_of(outcome), outcome.supply, outcome.shrink
    return Decision(
        desired=outcome.desired,
        current=outcome.current,
        reason=reason,
        message=message_of(outcome, reason),
        terms=outcome.recommendation.terms,
        raw=outcome.recommendation.raw,
        limited_by=limits_of(outcome),
        victims=shrunk.victims if shrunk is not None else (),
        serving=len(supply.serving),
        starting=supply.on_their_way - supply.late,
        overdue=supply.late,
        unknown=sum(pod.load is None for pod in supply.serving + supply.away),
        inputs=inputs_of(outcome),
    )


def inputs_of(outcome: Outcome) -> dict[str, float | int | str | None]:
    """The fleet's sums by name, for those who look behind the terms."""
    supply = outcome.supply
    loads = [pod.load for pod in supply.serving if pod.load is not None]
    running = [load.running for load in loads if load.running is not None]
    prompts = [load.prompt_tokens_per_s for load in loads if load.prompt_tokens_per_s is not None]
    return {
        "away": len(supply.away),
        "terminating": supply.terminating,
        "missing": supply.missing,
        "running": sum(running) if running else None,
        "promptTokensPerSecond": sum(prompts) if prompts else None,
        "recommended": outcome.recommendation.replicas,
        "stabilized": outcome.stabilized,
        "paced": outcome.paced,
        "bounded": outcome.bounded,
    }
