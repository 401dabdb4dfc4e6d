"""Quantiles of any number of values in little memory: a histogram with bins of half a per cent."""

import math

WIDTH = 0.005
LEAST = 1e-4
_LOG_LEAST = math.log(LEAST)
BINS = 4200


class Quantiles:
    """Counts in bins that grow by half a per cent: a quantile is right within a quarter per cent.

    Values up to 1e-4 are one bin, and so are those above 1e5.

    >>> some = Quantiles()
    >>> for value in range(1, 101):
    ...     some.add(value / 10)
    >>> round(some.at(0.5), 1), round(some.at(0.99), 1)
    (5.0, 9.9)
    """

    __slots__ = ("_counts", "count")

    def __init__(self) -> None:
        self._counts = [0] * BINS
        self.count = 0

    def add(self, value: float) -> None:
        """Count a value."""
        place = int((math.log(value) - _LOG_LEAST) / WIDTH) if value > LEAST else 0
        self._counts[min(place, BINS - 1)] += 1
        self.count += 1

    def at(self, q: float) -> float | None:
        """The q-quantile (nearest rank, the middle of its bin); None of nothing."""
        if not self.count:
            return None
        rank = max(1, math.ceil(q * self.count))
        seen = 0
        for place, count in enumerate(self._counts):
            seen += count
            if seen >= rank:
                return LEAST * math.exp((place + 0.5) * WIDTH) if place else 0.0
        raise AssertionError("the counts add up to the count")
