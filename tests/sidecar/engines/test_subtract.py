import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sidecar.engines import (
    EngineSample,
    Histogram,
    Own,
    has_counted,
    rates,
    since,
    with_own,
    without_own,
)

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


OWN = Own(requests=1, prompt_tokens=100, generation_tokens=16)


def counted(requests, prompts, answers, **more):
    return EngineSample(
        engine="vllm", running=0.0, requests=requests, prompt_tokens=prompts,
        generation_tokens=answers, **more,
    )  # fmt: skip


def test_what_is_our_own_is_no_rate():
    before, after = counted(10.0, 5000.0, 900.0), counted(13.0, 5600.0, 1216.0)
    found = rates(with_own(before, after, OWN), after, 10.0)

    assert found.requests_per_s == pytest.approx(0.2)
    assert found.prompt_tokens_per_s == pytest.approx(50.0)
    assert found.generation_tokens_per_s == pytest.approx(30.0)
    assert found.prompt_tokens_per_request == pytest.approx(250.0)


def test_a_page_that_does_not_count_our_own_yet_is_no_restart():
    idle = counted(10.0, 5000.0, 900.0, preemptions=3.0)
    found = rates(with_own(idle, idle, OWN), idle, 10.0)

    assert found.requests_per_s == 0.0
    assert found.preemptions_per_s == 0.0


def test_an_engine_that_began_anew_is_still_seen_to_have_done_so():
    before, after = counted(10.0, 5000.0, 900.0), counted(2.0, 300.0, 40.0)

    assert with_own(before, after, OWN) == before


def test_what_no_page_tells_stays_unknown():
    assert with_own(EngineSample(), EngineSample(requests=3.0), OWN) == EngineSample()
    assert Own(requests=2, prompt_tokens=200, generation_tokens=32) == OWN + OWN
