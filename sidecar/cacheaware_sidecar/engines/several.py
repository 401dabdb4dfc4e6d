"""The pages of several engines of one pod, each with a port of its own, as one sample."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cacheaware_sidecar.engines.sample import EngineSample, Histogram

SUMS = (
    "engines",
    "running",
    "waiting",
    "used_tokens",
    "capacity_tokens",
    "num_blocks",
    "used_bytes",
    "capacity_bytes",
    "prefix_queries",
    "prefix_hits",
    "prompt_tokens",
    "generation_tokens",
    "requests",
    "preemptions",
    "prefill_seconds",
    "prefilled_tokens",
)
HISTOGRAMS = ("ttft", "tpot", "e2e", "queue")


def together(samples: Sequence[EngineSample]) -> EngineSample:
    """One sample of all engines: sums, ratios weighted by capacity, the fullest kept beside them.

    What one engine doesn't tell is unknown of all. The engine that started last gives the start:
    one that was replaced makes it another.
    """
    if len(samples) == 1:
        return samples[0]
    fields: dict[str, Any] = {name: total([getattr(s, name) for s in samples]) for name in SUMS}
    fields |= {name: merged([getattr(s, name) for s in samples]) for name in HISTOGRAMS}
    starts = [sample.started_at for sample in samples]
    fullest = [s.usage if s.usage_max is None else s.usage_max for s in samples]
    return replace(
        samples[0],
        **fields,
        models=tuple(sorted({model for sample in samples for model in sample.models})),
        adapters=tuple(sorted({name for sample in samples for name in sample.adapters})),
        waiting_by_reason=reasons(samples),
        usage=weighted(samples, [sample.usage for sample in samples]),
        usage_max=None if None in fullest else max(one for one in fullest if one is not None),
        prefix_hit_ratio=weighted(samples, [sample.prefix_hit_ratio for sample in samples]),
        sleeping=all_sleep([sample.sleeping for sample in samples]),
        started_at=None if None in starts else max(one for one in starts if one is not None),
        problems=tuple(dict.fromkeys(line for sample in samples for line in sample.problems)),
    )


def total(values: Sequence[float | None]) -> float | None:
    """The sum; unknown where a part is."""
    return None if None in values else sum(value for value in values if value is not None)


def weighted(samples: Sequence[EngineSample], ratios: Sequence[float | None]) -> float | None:
    """Their ratios weighted by capacity; the mean where a capacity is not known."""
    if None in ratios:
        return None
    sizes = [sample.capacity_tokens or 0.0 for sample in samples]
    weights = sizes if all(sizes) else [1.0] * len(samples)
    shares = zip(ratios, weights, strict=True)
    return sum((ratio or 0.0) * weight for ratio, weight in shares) / sum(weights)


def all_sleep(told: Sequence[bool | None]) -> bool | None:
    """Whether all engines sleep; one that is awake proves that they don't.

    >>> all_sleep([True, None]), all_sleep([None, False]), all_sleep([True, True])
    (None, False, True)
    """
    if False in told:
        return False
    return None if None in told else True


def reasons(samples: Sequence[EngineSample]) -> tuple[tuple[str, float], ...]:
    """Waiting requests by reason, over all engines."""
    sums: dict[str, float] = {}
    for reason, count in (pair for sample in samples for pair in sample.waiting_by_reason):
        sums[reason] = sums.get(reason, 0.0) + count
    return tuple(sorted(sums.items()))


def merged(histograms: Sequence[Histogram | None]) -> Histogram | None:
    """The sum of histograms with the same bounds; None where one is missing or differs."""
    known = [one for one in histograms if one is not None]
    bounds = {tuple(bound for bound, _ in one.buckets) for one in known}
    if len(known) < len(histograms) or len(bounds) != 1:
        return None
    columns = zip(*([count for _, count in one.buckets] for one in known), strict=True)
    return Histogram(
        count=sum(one.count for one in known),
        sum=sum(one.sum for one in known),
        buckets=tuple(zip(bounds.pop(), map(sum, columns), strict=True)),
    )
