"""How the doctor shows the engines that it looked at."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from cacheaware.cli.doctor_health import Examined, number
from cacheaware.cli.doctor_view import INDENT, lines, summary
from cacheaware.doctor.tail_latency import ENOUGH, Judged, State, Tail
from cacheaware_sidecar.engines import EngineSample

SHOWN = {State.CAUSE: "cause", State.RULED_OUT: "not", State.OPEN: "open"}


def engines_json(told: Sequence[Examined]) -> dict[str, Any]:
    """What JSON adds where engines were looked at."""
    return {
        "looks": [look_json(one) for one in told if one.is_engine],
        "causes": [
            {"subject": one.subject, "id": j.id, "evidence": j.evidence, "fix": j.fix}
            for one in told
            for j in one.judged
            if j.state is State.CAUSE
        ],
        "ruled_out": [because(one.subject, j) for one, j in of_state(told, State.RULED_OUT)],
        "open": [because(one.subject, j) for one, j in of_state(told, State.OPEN)],
    }


def of_state(told: Sequence[Examined], state: State) -> list[tuple[Examined, Judged]]:
    """All that were judged so."""
    return [(one, j) for one in told for j in one.judged if j.state is state]


def because(subject: str, judged: Judged) -> dict[str, str]:
    """A cause that is none, or may be one."""
    return {"subject": subject, "id": judged.id, "why": judged.evidence}


def look_json(one: Examined) -> dict[str, Any]:
    """The numbers that the findings rest on; null where unknown."""
    sample = one.looks.sample if one.looks else EngineSample()
    tail = asdict(one.tail)
    beyond = tail.pop("beyond")
    return {
        "subject": one.subject,
        "engine": sample.engine,
        "seconds": one.looks.seconds if one.looks else None,
        "running": sample.running,
        "waiting": sample.waiting,
        "usage": number(sample.usage_max),
        "latency": {
            **{name: number(value) for name, value in tail.items()},
            "at_least": list(beyond),
        },
        "findings": len(one.findings),
    }


def engine_lines(one: Examined, width: int) -> Iterator[str]:
    """One engine as a person reads it."""
    yield f"{one.subject}: {summary(list(one.findings))}{seen(one)}"
    yield from lines(list(one.findings), width)
    if one.looks is None or one.looks.sample.engine is None:
        return
    if not one.tail.known:
        yield f"slow requests: not known: fewer than {ENOUGH} tokens were timed"
        return
    if not one.judged:
        yield f"slow requests: {none_known(one.tail)}; {times(one.tail)}"
        return
    yield f"slow requests: {times(one.tail)}"
    for judged in one.judged:
        yield from judged_lines(judged, width)


def none_known(tail: Tail) -> str:
    """That none are slow; or, of too few observations, that nobody knows."""
    if tail.ttft_p99 is not None and tail.token_p99 is not None:
        return "none"
    missing = "first" if tail.ttft_p99 is None else "other"
    return f"not known: fewer than {ENOUGH} {missing} tokens were seen"


def judged_lines(judged: Judged, width: int) -> Iterator[str]:
    """One cause; what to do only where it is one."""
    head = f"{SHOWN[judged.state]:<{len(INDENT)}}"
    told = [(head, f"{judged.id}: {judged.evidence}")]
    if judged.fix:
        told.append((INDENT, f"Fix: {judged.fix}"))
    for first, text in told:
        yield from textwrap.wrap(
            text, width, initial_indent=first, subsequent_indent=INDENT,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip


def seen(one: Examined) -> str:
    """What the page says of the load, in a few words."""
    if one.looks is None:
        return ""
    sample = one.looks.sample
    said = [
        sample.engine and f"{sample.engine}",
        sample.running is not None and f"{sample.running:g} running",
        sample.waiting is not None and f"{sample.waiting:g} waiting",
        sample.usage_max is not None and f"KV {sample.usage_max:.1%} full",
        one.looks.seconds is not None and f"{one.looks.seconds:g} s between the looks",
    ]
    known = [text for text in said if text]
    return f"; {', '.join(known)}" if known else ""


def times(tail: Tail) -> str:
    """Latency in words."""
    said = [
        f"{what} {shown(tail, f'{name}_p50')} (p50), {shown(tail, f'{name}_p99')} (p99)"
        for what, name in (("first token", "ttft"), ("other tokens", "token"))
        if getattr(tail, f"{name}_p99") is not None
    ]
    return "; ".join(said)


def shown(tail: Tail, name: str) -> str:
    """A time in seconds or milliseconds; of the open bucket what it is at least."""
    value: float = getattr(tail, name)
    text = f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.0f} ms"
    return f"at least {text}" if name in tail.beyond else text
