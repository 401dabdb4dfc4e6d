import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sidecar.engines import EngineSample, Histogram, has_counted, since, without_own

BEFORE = Histogram(8, 4.0, ((0.1, 3), (1.0, 6), (math.inf, 8)))
AFTER = Histogram(10, 5.0, ((0.1, 4), (1.0, 8), (math.inf, 10)))


def test_what_came_since_is_the_difference_bucket_by_bucket():
    assert since(BEFORE, AFTER) == Histogram(2, 1.0, ((0.1, 1), (1.0, 2), (math.inf, 2)))


def test_nothing_came_since_is_zero_and_not_unknown():
    assert since(AFTER, AFTER) == Histogram(0, 0.0, ((0.1, 0), (1.0, 0), (math.inf, 0)))


@pytest.mark.parametrize(
    "after",
    [
        None,
        Histogram(7, 5.0, ((0.1, 3), (1.0, 6), (math.inf, 7))),
        Histogram(9, 3.0, ((0.1, 3), (1.0, 6), (math.inf, 9))),
        Histogram(9, 5.0, ((0.1, 2), (1.0, 6), (math.inf, 9))),
        Histogram(9, 5.0, ((0.1, 3), (2.0, 6), (math.inf, 9))),
        Histogram(9, 5.0, ((0.1, 3), (math.inf, 9))),
        Histogram(9, 5.0, ((0.1, 6), (1.0, 6), (math.inf, 9))),
    ],
    ids=["unknown", "fewer", "less", "a bucket fell", "bounds", "buckets", "no longer rising"],
)
def test_an_engine_that_began_anew_counts_whole(after):
    assert since(BEFORE, after) is after


def test_without_an_earlier_look_all_counts():
    assert since(None, AFTER) is AFTER


COUNTS = st.lists(st.integers(0, 99), min_size=3, max_size=3)


@given(COUNTS, COUNTS)
def test_the_difference_is_a_histogram_again(first, more):
    def histogram(counts):
        rising = [sum(counts[: n + 1]) for n in range(3)]
        bounds = (0.1, 1.0, math.inf)
        return Histogram(rising[-1], float(rising[-1]), tuple(zip(bounds, rising, strict=True)))

    total = histogram([a + b for a, b in zip(first, more, strict=True)])

    assert since(histogram(first), total) == histogram(more)


@pytest.mark.parametrize(
    ("running", "waiting", "own", "left"),
    [
        (3.0, 2.0, 0, (3.0, 2.0)),
        (3.0, 2.0, 2, (1.0, 2.0)),
        (3.0, 2.0, 4, (0.0, 1.0)),
        (1.0, 0.0, 4, (0.0, 0.0)),
        (None, 2.0, 2, (None, 2.0)),
        (1.0, None, 2, (0.0, None)),
    ],
)
def test_our_own_requests_are_taken_off_those_that_run_then_those_that_wait(
    running, waiting, own, left
):
    sample = without_own(EngineSample(running=running, waiting=waiting), own)

    assert (sample.running, sample.waiting) == left


@pytest.mark.parametrize(
    ("before", "after", "whether"),
    [
        (EngineSample(requests=5.0), EngineSample(requests=8.0), True),
        (EngineSample(requests=5.0), EngineSample(requests=7.0), False),
        (EngineSample(requests=5.0), EngineSample(requests=1.0), True),
        (EngineSample(), EngineSample(requests=1.0), True),
        (EngineSample(requests=5.0), EngineSample(), True),
        (None, EngineSample(requests=1.0), True),
        (EngineSample(requests=5.0), None, True),
    ],
    ids=["all", "not yet", "began anew", "unknown", "unknown now", "no page", "no page now"],
)
def test_whether_a_page_shows_all_requests_of_the_warmup(before, after, whether):
    assert has_counted(before, after, 3) is whether
