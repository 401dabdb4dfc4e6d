"""A histogram that costs one bisection per observation."""

from bisect import bisect_left

from cacheaware_sidecar.engines.sample import Histogram


class Observations:
    """Counts per bucket, as `Histogram` (cumulative) on demand."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value; one equal to a bound belongs below it, as in Prometheus."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times

    def frozen(self) -> Histogram:
        """What has been observed, cumulative, the last bound infinity."""
        buckets = []
        total = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return Histogram(count=float(total), sum=self.sum, buckets=tuple(buckets))
