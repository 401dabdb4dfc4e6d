"""Counters to rates, across restarts of the engine."""

import math
from dataclasses import dataclass

from cacheaware_sidecar.engines.sample import EngineSample

COUNTERS = (
    "prefix_queries",
    "prefix_hits",
    "prompt_tokens",
    "generation_tokens",
    "requests",
    "preemptions",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Per-second rates and ratios between two samples; None where either does not tell.

    Token counters grow while a request runs, the counter of requests only when it ends. So what
    began, ran on and ended between the samples is counted by both gauges, `running` and `requests`:
    a prompt counts where a request began (ended + more running), and its answer as far as it got,
    half of it on average (ended + half of more running). 24 requests of 500 + 100 tokens that
    began in the window, 1 of them ended, 1,250 tokens generated: 12,000 / (1 + 23) = 500 prompt
    tokens and 1,250 / (1 + 11.5) = 100 generation tokens a request.
    """

    prompt_tokens_per_s: float | None = None
    generation_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    prompt_tokens_per_request: float | None = None
    generation_tokens_per_request: float | None = None
    prefix_hit_ratio: float | None = None
    preemptions_per_s: float | None = None


def restarted(before: EngineSample, after: EngineSample) -> bool:
    """Whether the engine began anew: another start, another engine, or a counter that fell."""
    starts = before.started_at, after.started_at
    if None not in starts and starts[0] != starts[1]:
        return True
    pairs = [(getattr(before, name), getattr(after, name)) for name in COUNTERS]
    fell = any(old is not None and new is not None and new < old for old, new in pairs)
    return fell or before.engine != after.engine


def rates(before: EngineSample, after: EngineSample, seconds: float) -> Rates:
    """What happened between two samples of a pod.

    After a restart a counter's whole value has grown since. 0/0 is None, never NaN.

    Args:
        before: The older sample.
        after: The newer sample.
        seconds: The time between them; all is None unless it is above 0.
    """
    if not 0 < seconds < math.inf:
        return Rates()
    anew = restarted(before, after)
    grown = {name: _grown(before, after, name, anew=anew) for name in COUNTERS}
    ended, more_running = grown["requests"], _more_running(before, after, anew=anew)
    return Rates(
        prompt_tokens_per_s=ratio(grown["prompt_tokens"], seconds),
        generation_tokens_per_s=ratio(grown["generation_tokens"], seconds),
        requests_per_s=ratio(grown["requests"], seconds),
        prompt_tokens_per_request=_per_request(grown["prompt_tokens"], ended, more_running),
        generation_tokens_per_request=_per_request(
            grown["generation_tokens"], ended, more_running / 2
        ),
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


def _per_request(tokens: float | None, ended: float | None, in_flight: float) -> float | None:
    """Tokens of one request; None where they are not of a whole one."""
    requests = None if ended is None else ended + in_flight
    return None if requests is None or requests < 1 else ratio(tokens, requests)


def _hit_ratio(grown: dict[str, float | None], after: EngineSample) -> float | None:
    """From the counters; from the engine's own gauge where it has none."""
    if after.prefix_queries is None or after.prefix_hits is None:
        return after.prefix_hit_ratio
    hits = ratio(grown["prefix_hits"], grown["prefix_queries"])
    return hits if hits is not None and hits <= 1 else None
