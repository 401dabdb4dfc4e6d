"""A quantile of what two looks at a cumulative histogram say happened between them."""

import math

from cacheaware_sidecar.engines.sample import Histogram


def quantile(before: Histogram, after: Histogram, q: float) -> float | None:
    """The q-quantile of the observations between two looks, in the histogram's unit.

    Interpolates within the bucket as Prometheus' `histogram_quantile` does; in the last, open
    bucket the answer is its lower bound, which is all that is known.

    Returns:
        None where nothing was observed between, or the engine began anew.
    """
    if not comparable(before, after):
        return None
    total = after.buckets[-1][1] - before.buckets[-1][1]
    if total <= 0:
        return None
    rank = q * total
    low_bound, low_count = 0.0, 0.0
    for (bound, new), (_, old) in zip(after.buckets, before.buckets, strict=True):
        count = new - old
        if count >= rank:
            if math.isinf(bound):
                return low_bound
            inside = count - low_count
            return low_bound + (bound - low_bound) * ((rank - low_count) / inside if inside else 1)
        low_bound, low_count = bound, count
    return None


def comparable(before: Histogram, after: Histogram) -> bool:
    """Whether the counts of the time between can be told: no reset, no change of buckets."""
    if after.count < before.count or len(after.buckets) != len(before.buckets):
        return False
    for (bound, new), (same, old) in zip(after.buckets, before.buckets, strict=True):
        if bound != same or new < old:
            return False
    return bool(after.buckets)
