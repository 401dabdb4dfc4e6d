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
    counts = between(before, after)
    if not counts or counts[-1][1] <= 0:
        return None
    rank = q * counts[-1][1]
    low_bound, low_count = 0.0, 0.0
    for bound, count in counts:
        if count >= rank:
            if math.isinf(bound):
                return low_bound
            inside = count - low_count
            return low_bound + (bound - low_bound) * ((rank - low_count) / inside if inside else 1)
        low_bound, low_count = bound, count
    return None


def between(before: Histogram, after: Histogram) -> list[tuple[float, float]]:
    """Cumulative counts of the time between; empty after a reset or a change of buckets."""
    if after.count < before.count or len(after.buckets) != len(before.buckets):
        return []
    pairs = list(zip(before.buckets, after.buckets, strict=True))
    if any(old[0] != new[0] or new[1] < old[1] for old, new in pairs):
        return []
    return [(new[0], new[1] - old[1]) for old, new in pairs]
