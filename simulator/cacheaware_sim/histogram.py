"""A histogram that costs one bisection per observation."""

from bisect import bisect_left
from itertools import accumulate
from math import inf

from cacheaware_sidecar.engines.sample import Histogram


class Observations:
    """Counts per bucket, as `Histogram` (cumulative) on demand."""

    __slots__ = ("_all_bounds", "_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._all_bounds = (*bounds, inf)
        self._counts = [0.0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value; one equal to a bound belongs below it, as in Prometheus."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times

    def observe_series(self, first: float, growth: float, values: int, times: int = 1) -> None:
        """Count `values` ascending values, each `growth` above the one before, each `times`."""
        bounds, counts = self._bounds, self._counts
        bucket = bisect_left(bounds, first)
        highest = bisect_left(bounds, first + growth * (values - 1))
        left = values
        while bucket < highest:
            below = values - left
            inside = min(left, max(below, int((bounds[bucket] - first) / growth) + 1) - below)
            counts[bucket] += inside * times
            left -= inside
            bucket += 1
        counts[highest] += left * times
        self.sum += (values * first + growth * (values * (values - 1) // 2)) * times

    def frozen(self) -> Histogram:
        """What has been observed, cumulative, the last bound infinity."""
        buckets = tuple(zip(self._all_bounds, accumulate(self._counts), strict=True))
        return Histogram(count=buckets[-1][1], sum=self.sum, buckets=buckets)
