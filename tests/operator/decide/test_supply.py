"""What of a pod's numbers is possible."""

import math

import pytest

from cacheaware.decide.fleet import PodLoad
from cacheaware.decide.supply import checked


@pytest.mark.parametrize(
    "load",
    [
        PodLoad(),
        PodLoad(running=-1.0, waiting=math.nan, usage=1.5),
        PodLoad(capacity_tokens=1000.0, tokens_per_request=9.0),
    ],
)
def test_a_load_that_tells_neither_requests_nor_use_is_none(load):
    assert checked(load) is None


@pytest.mark.parametrize(
    ("tokens", "speed", "seconds"),
    [
        (100.0, 50.0, 8.0),
        (100.0, 0.0, None),
        (100.0, None, None),
        (100.0, math.inf, None),
        (None, 50.0, None),
        (-1.0, 50.0, None),
        (1e15, 1e-15, None),
    ],
)
def test_the_time_to_empty_needs_a_length_and_a_speed(tokens, speed, seconds):
    load = checked(
        PodLoad(
            running=3.0,
            waiting=1.0,
            generation_tokens_per_request=tokens,
            generation_tokens_per_s=speed,
        )
    )

    assert load.seconds_to_empty == seconds


@pytest.mark.parametrize(
    ("usage", "usage_max", "expected"),
    [(0.3, 0.5, 0.5), (0.5, 0.3, 0.5), (None, 0.4, 0.4), (0.4, None, 0.4), (7.0, 0.2, 0.2)],
)
def test_the_fullest_engine_counts(usage, usage_max, expected):
    assert checked(PodLoad(usage=usage, usage_max=usage_max)).usage == expected


@pytest.mark.parametrize(("used", "expected"), [(80.0, 80.0), (10.0, 50.0), (200.0, 50.0)])
def test_a_pod_counts_as_full_as_its_fullest_engine(used, expected):
    load = checked(PodLoad(usage=0.5, used_tokens=used, capacity_tokens=100.0))

    assert load.used_tokens == expected
