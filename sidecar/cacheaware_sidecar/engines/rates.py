"""Counters to rates, across restarts of the engine."""

import math
from dataclasses import dataclass, replace
from typing import Any

from cacheaware_sidecar.engines.detect import DIALECTS
from cacheaware_sidecar.engines.sample import EngineSample
from cacheaware_sidecar.engines.vllm import INFERENCE_SIM

COUNTERS = (
    "prefix_queries",
    "prefix_hits",
    "prompt_tokens",
    "generation_tokens",
    "requests",
    "preemptions",
)
_COUNTED_AT_END = {each.engine: each.counted_at_end for each in (*DIALECTS, INFERENCE_SIM)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Per-second rates and ratios between two samples; None where either does not tell.

    vLLM and LMDeploy count tokens while a request runs, but the request only when it ends. So
    prompts are divided by the requests that began (ended + more running), and answers, which are
    half done on average, by ended + half of more running. 24 requests of 500 + 100 tokens began,
    1 of them has ended, 1,250 tokens were generated: 12,000 / (1 + 23) = 500 prompt tokens and
    1,250 / (1 + 23 / 2) = 100 generation tokens a request. Tokens that an engine counts when a
    request ends are divided by the requests that ended.
    """

    prompt_tokens_per_s: float | None = None
    generation_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    prompt_tokens_per_request: float | None = None
    generation_tokens_per_request: float | None = None
    prefix_hit_ratio: float | None = None
    preemptions_per_s: float | None = None


def restarted(before: EngineSample, after: EngineSample) -> bool:
    """Whether the engine began anew: another start, another engine, or counters that fell.

    One that fell alone in the same process (`fell_alone`) is no restart.
    """
    starts = before.started_at, after.started_at
    if None not in starts and starts[0] != starts[1]:
        return True
    if before.engine != after.engine:
        return True
    return bool(_fallen(before, after)) and fell_alone(before, after) is None


def fell_alone(before: EngineSample, after: EngineSample) -> str | None:
    """The counter that fell while the process is the same and no other fell: it is wrong, not anew.

    Told only where it is certain. Without a start that both tell, a counter that fell is a restart;
    so it is on a page of several engines, whose earliest start says nothing of the others, and
    where no other counter has held a count.
    """
    if before.started_at is None or before.started_at != after.started_at:
        return None
    if before.engine != after.engine or {before.engines, after.engines} - {None, 1}:
        return None
    fell = _fallen(before, after)
    held = any(is_ >= was > 0 for was, is_ in _both(before, after).values())
    return fell[0] if len(fell) == 1 and held else None


def without_fallen(before: EngineSample, after: EngineSample) -> EngineSample:
    """The earlier sample without a counter that fell alone: what that one gained is unknown."""
    name = fell_alone(before, after)
    if name is None:
        return before
    unknown: dict[str, Any] = {name: None}
    return replace(before, **unknown)


def _fallen(before: EngineSample, after: EngineSample) -> list[str]:
    return [name for name, (was, is_) in _both(before, after).items() if is_ < was]


def _both(before: EngineSample, after: EngineSample) -> dict[str, tuple[float, float]]:
    """The counters that both pages tell."""
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in COUNTERS}
    return {name: pair for name, pair in pairs.items() if None not in pair}


def rates(before: EngineSample, after: EngineSample, seconds: float) -> Rates:
    """What happened between two samples of a pod.

    After a restart a counter's whole value has grown since; one that fell alone has no rate. 0/0 is
    None, never NaN.

    Args:
        before: The older sample.
        after: The newer sample.
        seconds: The time between them; all is None unless it is above 0.
    """
    if not 0 < seconds < math.inf:
        return Rates()
    anew, before = restarted(before, after), without_fallen(before, after)
    grown = {name: _grown(before, after, name, anew=anew) for name in COUNTERS}
    more = _more_running(before, after, anew=anew)
    return Rates(
        prompt_tokens_per_s=ratio(grown["prompt_tokens"], seconds),
        generation_tokens_per_s=ratio(grown["generation_tokens"], seconds),
        requests_per_s=ratio(grown["requests"], seconds),
        prompt_tokens_per_request=_per_request("prompt_tokens", grown, after, more),
        generation_tokens_per_request=_per_request("generation_tokens", grown, after, more / 2),
        prefix_hit_ratio=_hit_ratio(grown, after),
        preemptions_per_s=ratio(grown["preemptions"], seconds),
    )


def ratio(part: float | None, whole: float | None) -> float | None:
    """A quotient; None where either is unknown or the divisor is 0."""
    return None if part is None or not whole else part / whole


def _grown(before: EngineSample, after: EngineSample, name: str, *, anew: bool) -> float | None:
    old: float | None = getattr(before, name)
    new: float | None = getattr(after, name)
    if new is None or anew:
        return new
    return None if old is None else new - old


def _more_running(before: EngineSample, after: EngineSample, *, anew: bool) -> float:
    """By how much more requests run now; 0 where that is unknown: what ended must do."""
    old = 0.0 if anew else before.running
    return 0.0 if old is None or after.running is None else after.running - old


def _per_request(
    name: str, grown: dict[str, float | None], after: EngineSample, in_flight: float
) -> float | None:
    """Tokens of one request; None where they are of less than a whole one."""
    requests = grown["requests"]
    if requests is None:
        return None
    if name not in _COUNTED_AT_END.get(after.engine or "", ()):
        requests += in_flight
    return ratio(grown[name], requests) if requests >= 1 else None


def _hit_ratio(grown: dict[str, float | None], after: EngineSample) -> float | None:
    """From the counters; from the engine's own gauge where it has none."""
    if after.prefix_queries is None or after.prefix_hits is None:
        return after.prefix_hit_ratio
    hits = ratio(grown["prefix_hits"], grown["prefix_queries"])
    return hits if hits is not None and hits <= 1 else None
