"""A pod seen without a sidecar: its engines' own metrics pages, read by the same code."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from cacheaware.decide.fleet import PodLoad, Unknown
from cacheaware.observe.load import pod_load
from cacheaware.observe.look import DIRECT, Look
from cacheaware.observe.memory import Mark
from cacheaware.observe.poll import Answer
from cacheaware_sidecar.engines import EngineSample, Rates, rates, scan
from cacheaware_sidecar.state import kv_state

PATH = "/metrics"
PORT = 8000
MAX_BYTES = 8 * 1024 * 1024


def look(
    answers: Sequence[Answer], before: Callable[[float], Mark | None], engine: str = "auto"
) -> Look:
    """Read a pod's pages, one for each engine; all must be readable.

    Args:
        answers: one for each port, at least one.
        before: the earlier look that rates at a moment are measured against.
        engine: whose names to read, or "auto".
    """
    at = max(answer.at for answer in answers)
    failed = next((answer for answer in answers if answer.content is None), None)
    if failed is not None:
        unknown = failed.unknown or Unknown.ERROR
        return Look(at=at, way=DIRECT, unknown=unknown, detail=failed.detail)
    samples = tuple(
        scan(answer.content, engine) for answer in answers if answer.content is not None
    )
    for sample in samples:
        if (unusable := why_unusable(sample)) is not None:
            detail = "; ".join(sample.problems) or "no load in the page"
            return Look(at=at, way=DIRECT, unknown=unusable, detail=detail)
    speeds = speeds_of(before(at), samples, at)
    loads = [load_of(sample, speed) for sample, speed in zip(samples, speeds, strict=True)]
    ttft = samples[0].ttft if len(samples) == 1 else None
    return Look(at=at, way=DIRECT, load=combined(loads), samples=samples, ttft=ttft)


def speeds_of(mark: Mark | None, samples: Sequence[EngineSample], at: float) -> list[Rates]:
    """Rates since the mark; unknown where there is none to measure against."""
    if mark is None or len(mark.samples) != len(samples) or at <= mark.at:
        return [Rates() for _ in samples]
    pairs = zip(mark.samples, samples, strict=True)
    return [rates(old, new, at - mark.at) for old, new in pairs]


def why_unusable(sample: EngineSample) -> Unknown | None:
    """Why a page says nothing about load; None where it says something."""
    if sample.engine is None:
        return Unknown.UNSUPPORTED
    known = (sample.running, sample.waiting, sample.usage, sample.used_tokens)
    return Unknown.INVALID if all(one is None for one in known) else None


def load_of(sample: EngineSample, speed: Rates) -> PodLoad:
    """The load that a page reports."""
    hits = first_known(speed.prefix_hit_ratio, sample.prefix_hit_ratio)
    speed = replace(speed, prefix_hit_ratio=hits)
    return pod_load(sample.running, sample.waiting, kv_state(sample, None), speed)


def first_known(*values: float | None) -> float | None:
    """The first value that is known."""
    return next((value for value in values if value is not None), None)


def combined(loads: Sequence[PodLoad]) -> PodLoad:
    """The engines of one pod together: sums, and usage weighted by capacity."""
    if len(loads) == 1:
        return loads[0]
    capacities = [load.capacity_tokens for load in loads]
    weights = capacities if all(capacities) else [1.0] * len(loads)
    fullest = [load.usage_max if load.usage_max is not None else load.usage for load in loads]
    return PodLoad(
        running=summed(load.running for load in loads),
        waiting=summed(load.waiting for load in loads),
        usage=weighted([load.usage for load in loads], weights),
        usage_max=None if None in fullest else max(one for one in fullest if one is not None),
        used_tokens=summed(load.used_tokens for load in loads),
        capacity_tokens=summed(capacities),
        prompt_tokens_per_s=summed(load.prompt_tokens_per_s for load in loads),
        generation_tokens_per_s=summed(load.generation_tokens_per_s for load in loads),
        tokens_per_request=weighted([load.tokens_per_request for load in loads], weights),
        prefix_hit_ratio=weighted([load.prefix_hit_ratio for load in loads], weights),
    )


def summed(values: Iterable[float | None]) -> float | None:
    """The sum; unknown where any part is."""
    found = list(values)
    return None if None in found else sum(value for value in found if value is not None)


def weighted(values: Sequence[float | None], weights: Sequence[float | None]) -> float | None:
    """The weighted mean; unknown where any part is."""
    if None in values or None in weights:
        return None
    pairs = [(value or 0.0, weight or 0.0) for value, weight in zip(values, weights, strict=True)]
    return sum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs)
