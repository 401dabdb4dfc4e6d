"""A pod seen without a sidecar: its engines' own metrics pages, read by the same code."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from cacheaware.decide.fleet import PodLoad, Unknown
from cacheaware.observe.load import pod_load
from cacheaware.observe.look import DIRECT, Look
from cacheaware.observe.memory import Mark
from cacheaware.observe.poll import Answer
from cacheaware_sidecar.engines import (
    EngineSample,
    Rates,
    rates,
    restarted,
    scan,
    together,
    without_fallen,
)
from cacheaware_sidecar.state import counters, kv_state

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
    return look_of(samples, before(at), at)


def look_of(samples: tuple[EngineSample, ...], mark: Mark | None, at: float) -> Look:
    """What the pages of a pod's engines say, with rates since an earlier look."""
    pod = together(samples)
    load = load_of(pod, speed_of(mark, samples, at))
    told = counters(pod)
    return Look(at=at, way=DIRECT, load=load, samples=samples, ttft=pod.ttft, counters=told)


def speed_of(mark: Mark | None, samples: Sequence[EngineSample], at: float) -> Rates:
    """Rates since the mark; unknown where there is none to measure against.

    Of several engines none may have begun anew meanwhile: all that the others ever counted would
    look as if it had come since. A counter that fell alone in one of them has no rate.
    """
    if mark is None or len(mark.samples) != len(samples) or at <= mark.at:
        return Rates()
    pairs = list(zip(mark.samples, samples, strict=True))
    if len(samples) > 1 and any(restarted(old, new) for old, new in pairs):
        return Rates()
    earlier = [without_fallen(old, new) for old, new in pairs]
    return rates(together(earlier), together(samples), at - mark.at)


def why_unusable(sample: EngineSample) -> Unknown | None:
    """Why a page says nothing about load; None where it says something."""
    if sample.engine is None:
        return Unknown.UNSUPPORTED
    known = (sample.running, sample.waiting, sample.usage, sample.used_tokens)
    return Unknown.INVALID if all(one is None for one in known) else None


def load_of(sample: EngineSample, speed: Rates) -> PodLoad:
    """The load that a page reports."""
    hits = first_known(speed.prefix_hit_ratio, sample.prefix_hit_ratio)
    load = pod_load(sample.running, sample.waiting, kv_state(sample, None), speed)
    return replace(load, prefix_hit_ratio=hits, sleeping=sample.sleeping)


def first_known(*values: float | None) -> float | None:
    """The first value that is known."""
    return next((value for value in values if value is not None), None)
