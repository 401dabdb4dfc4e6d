"""A quantile between two looks at a histogram."""

import math

import pytest

from cacheaware.observe.latency import quantile
from cacheaware_sidecar.engines import Histogram


def histogram(*counts, bounds=(1.0, 2.0, math.inf)):
    return Histogram(counts[-1], 0.0, tuple(zip(bounds, counts, strict=True)))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (histogram(0, 0, 0), histogram(10, 10, 10), 0.9),
        (histogram(5, 5, 5), histogram(5, 15, 15), 1.9),
        (histogram(0, 0, 0), histogram(0, 0, 10), 2.0),
        (histogram(7, 7, 7), histogram(7, 7, 7), None),
        (histogram(7, 7, 7), histogram(1, 1, 1), None),
        (histogram(5, 5, 5), histogram(4, 6, 6), None),
        (histogram(0, 0, 0), histogram(1, 1, 1, bounds=(1.0, 3.0, math.inf)), None),
        (histogram(0, bounds=(math.inf,)), histogram(1, 1, 1), None),
    ],
    ids=[
        "first bucket",
        "within a bucket",
        "beyond the last bound",
        "nothing happened",
        "the engine began anew",
        "a bucket went back",
        "other bounds",
        "other number of bounds",
    ],
)
def test_the_p90_of_what_happened_between(before, after, expected):
    found = quantile(before, after, 0.9)
    assert found == (expected if expected is None else pytest.approx(expected))


def test_counts_that_never_reach_the_rank_are_unknown():
    before = Histogram(0, 0.0, ((1.0, 0.0),))
    after = Histogram(10, 0.0, ((1.0, 5.0),))
    assert quantile(before, after, 1.0) == pytest.approx(1.0)
