"""How a replay is shown: steps, a summary, and what hindsight would have saved."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cacheaware.cli.output import cell, print_table
from cacheaware.names import Reasons

if TYPE_CHECKING:
    from cacheaware.decide.decision import Decision, Victim
    from cacheaware.recording.hindsight import Regret
    from cacheaware.recording.replay import Step

HOUR_S = 3600.0
QUIET = frozenset(
    {
        Reasons.STEADY,
        Reasons.WITHIN_TOLERANCE,
        Reasons.STABILIZING,
        Reasons.RATE_LIMITED,
        Reasons.AT_MINIMUM,
        Reasons.WAITING_FOR_STARTING,
    }
)
OPEN_LOOP = "Open loop: each line is decided on what was seen then."


@dataclass(frozen=True, slots=True)
class Cost:
    """What was ordered beside what would have done."""

    regret: "Regret"
    source: str
    """Where the cold start is from: given, recorded, assumed."""
    gap_s: float
    """That nobody watched."""
    gpus_per_replica: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One history with what would have been decided."""

    name: str
    spec: Mapping[str, Any]
    mode: str
    steps: "Sequence[Step]"
    cut: bool
    cost: Cost | None


def as_json(found: Replayed) -> dict[str, Any]:
    """One object of the JSON output; its keys are stable."""
    return {
        "file": found.name,
        "open_loop": True,
        "spec": dict(found.spec),
        "steps": [step_json(step) for step in found.steps],
        "summary": summary_of(found),
        "regret": None if found.cost is None else cost_json(found.cost),
    }


def step_json(step: "Step") -> dict[str, Any]:
    """One round."""
    decision = step.decision
    return {
        "at_s": step.at_s,
        "current": decision.current,
        "desired": decision.desired,
        "raw": decision.raw,
        "reason": decision.reason,
        "message": decision.message,
        "serving": decision.serving,
        "starting": decision.starting,
        "overdue": decision.overdue,
        "cordoned": step.cordoned,
        "unknown": decision.unknown,
        "limited_by": list(decision.limited_by),
        "terms": terms_json(decision),
        "victims": pods_of(decision.victims),
        "cordons": pods_of(decision.cordons),
        "uncordons": pods_of(decision.uncordons),
    }


def terms_json(decision: "Decision") -> list[dict[str, Any]]:
    """The signals."""
    return [
        {
            "signal": one.signal,
            "demand": one.demand,
            "per_replica": one.per_replica,
            "unit": one.unit,
            "replicas": one.replicas,
            "note": one.note,
        }
        for one in decision.terms
    ]


def pods_of(victims: "Sequence[Victim]") -> list[str]:
    """Their pods."""
    return [one.pod for one in victims]


def summary_of(found: Replayed) -> dict[str, Any]:
    """The whole in a few numbers."""
    decisions = [step.decision for step in found.steps]
    reasons = Counter(one.reason for one in decisions)
    return {
        "rounds": len(decisions),
        "seconds": found.steps[-1].at_s - found.steps[0].at_s,
        "cut": found.cut,
        "mode": found.mode,
        "recorded": spread([one.current for one in decisions]),
        "desired": spread([one.desired for one in decisions]),
        "growing_rounds": sum(one.desired > one.current for one in decisions),
        "shrinking_rounds": sum(one.desired < one.current for one in decisions),
        "reasons": dict(reasons.most_common()),
    }


def spread(numbers: Sequence[int]) -> dict[str, Any]:
    """Of replicas over the rounds."""
    mean = round(sum(numbers) / len(numbers), 3)
    return {"min": min(numbers), "max": max(numbers), "mean": mean}


def cost_json(cost: Cost) -> dict[str, Any]:
    """What was ordered beside what would have done, in hours; GPU-hours where GPUs are known."""
    found, gpus = cost.regret, cost.gpus_per_replica
    recorded, hindsight = found.recorded / HOUR_S, found.hindsight / HOUR_S
    return {
        "cold_start_s": found.cold_start_s,
        "cold_start_source": cost.source,
        "seconds": round(found.seconds, 3),
        "unwatched_s": round(cost.gap_s, 3),
        "recorded_replica_hours": round(recorded, 4),
        "hindsight_replica_hours": round(hindsight, 4),
        "over_replica_hours": round(found.over / HOUR_S, 4),
        "gpus_per_replica": gpus,
        "recorded_gpu_hours": None if gpus is None else round(recorded * gpus, 4),
        "hindsight_gpu_hours": None if gpus is None else round(hindsight * gpus, 4),
        "regret_percent": None if found.percent is None else round(found.percent, 1),
        "short_s": round(found.short_s, 3),
        "beyond_max_s": round(found.beyond_s, 3),
        "unknown_s": round(found.unknown_s, 3),
        "shrinks": found.shrinks,
        "regretted_shrinks": found.regretted,
    }


def show(found: Replayed, *, everything: bool) -> None:
    """For people: the steps at which something changes, and the summary."""
    print(f"{found.name}: mode {found.mode}. {OPEN_LOOP}\n")
    steps = found.steps if everything else list(changes(found.steps))
    columns = ("TIME", "SERVING", "STARTING", "CORDONED", "TERMS", "REPLICAS", "REASON", "WHY")
    print_table(columns, [row(step) for step in steps])
    print()
    for line in summary_lines(found):
        print(line)
    if found.cost is not None:
        show_cost(found.cost)
    print()


def changes(steps: "Sequence[Step]") -> "Iterator[Step]":
    """The first step, and each that differs in more than its figures from the one before."""
    before = None
    for step in steps:
        decision = step.decision
        now = (
            decision.current, decision.desired, news_of(decision), decision.serving,
            decision.starting, step.cordoned, decision.unknown,
        )  # fmt: skip
        if now != before:
            yield step
        before = now


def news_of(decision: "Decision") -> str | None:
    """The reason; None where it is one of those that come and go while all is well."""
    quiet = decision.desired == decision.current and decision.reason in QUIET
    return None if quiet else decision.reason


def row(step: "Step") -> tuple[Any, ...]:
    """A line of the table."""
    decision = step.decision
    terms = ", ".join(f"{one.signal} {one.replicas}" for one in decision.terms)
    wants = f"{decision.current} -> {decision.desired}"
    return (
        clock(step.at_s), decision.serving, decision.starting, step.cordoned, terms or None, wants,
        decision.reason, decision.message,
    )  # fmt: skip


def clock(seconds: float) -> str:
    """Hours, minutes and seconds since the beginning."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def summary_lines(found: Replayed) -> Iterator[str]:
    """The summary in words."""
    told = summary_of(found)
    recorded, desired = told["recorded"], told["desired"]
    yield (
        f"{told['rounds']:,} rounds in {clock(told['seconds'])}: {range_of(recorded)} replicas"
        f" recorded, {range_of(desired)} decided; growing in {told['growing_rounds']:,} rounds,"
        f" shrinking in {told['shrinking_rounds']:,}."
    )
    if found.cut:
        yield "The last line has no end: the recording was cut there."


def range_of(numbers: Mapping[str, Any]) -> str:
    """From the least to the most, and the mean."""
    low, high = numbers["min"], numbers["max"]
    return str(low) if low == high else f"{low}..{high} (mean {numbers['mean']:.2f})"


def show_cost(cost: Cost) -> None:
    """What was ordered beside what would have done."""
    told = cost_json(cost)
    unit, size = ("GPU-h", cost.gpus_per_replica) if cost.gpus_per_replica else ("replica-h", 1)
    ahead = f"the least that covers the need, ordered {told['cold_start_s']:g} s ahead"
    ahead += f" ({told['cold_start_source']} cold start)"
    over = f"{told['over_replica_hours'] * size:.2f} {unit}"
    rows = [
        ("ordered", f"{told['recorded_replica_hours'] * size:.2f} {unit}", ""),
        (
            "with hindsight", f"{told['hindsight_replica_hours'] * size:.2f} {unit}",
            ahead,
        ),
        ("regret", percent(told["regret_percent"]), f"{over} were ordered beyond hindsight"),
        (
            "short of need", f"{told['short_s']:,.0f} s",
            "fewer pods served than the load needed, within the bounds",
        ),
        ("need above maxReplicas", f"{told['beyond_max_s']:,.0f} s", ""),
        ("need unknown", f"{told['unknown_s']:,.0f} s", "counted as needed as it was ordered"),
        (
            "shrinks", cell(told["shrinks"]),
            f"{told['regretted_shrinks']} of them regrown within 10 minutes",
        ),
    ]  # fmt: skip
    if told["unwatched_s"]:
        rows.append(("not watched", f"{told['unwatched_s']:,.0f} s", "left out of all of this"))
    print()
    print_table(("REGRET", "", ""), rows)


def percent(value: float | None) -> str:
    """A signed share."""
    return "-" if value is None else f"{value:+.1f} %"
