import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sidecar.convergence import has_converged


def requests_until_rest(latencies):
    seen = []
    for each in latencies:
        seen.append(each)
        if has_converged(seen):
            return len(seen)
    return None


@pytest.mark.parametrize(
    ("latencies", "requests"),
    [
        ([0.3, 0.3, 0.3], 3),
        ([0.3, 0.32, 0.349], 3),
        ([2.1, 0.30, 0.31, 0.33], 4),
        ([2.1, 2.2, 0.3, 0.3, 0.3], 5),
        ([2.1, 1.4, 0.9, 0.5, 0.3, 0.3, 0.3], 7),
        ([0.3, 0.3, 5.0, 0.3], 4),
        ([0.3, 0.36, 0.3, 0.36, 0.3], 5),
        ([0.005, 0.024, 0.012], 3),
        ([2.1, 1.4, 0.9, 0.5], None),
        ([0.3, 0.3], None),
        ([], None),
    ],
    ids=[
        "warm from the first",
        "within 10 % and 20 ms",
        "one stall",
        "a stall at the second as well",
        "ever better",
        "a late stall is paid for",
        "slow now and then",
        "short requests vary by milliseconds",
        "not yet",
        "two prove nothing",
        "nothing",
    ],
)
def test_when_latencies_are_at_rest(latencies, requests):
    assert requests_until_rest(latencies) == requests


@given(st.lists(st.floats(0.001, 10), min_size=3, max_size=12))
def test_three_are_near_the_best_and_never_fewer(latencies):
    near = sorted(latencies)[:3]

    assert has_converged(latencies) is (near[2] <= near[0] * 1.1 + 0.02)


@given(st.integers(0, 10_000))
def test_noise_of_a_sidecar_that_is_short_of_cpu_comes_to_rest_as_well(seed):
    """A quota of 100 ms periods adds up to 100 ms to any request."""
    dice = random.Random(seed)

    assert requests_until_rest(0.005 + dice.random() * 0.1 for _ in range(99)) <= 40


def test_a_stall_above_the_tolerance_is_never_taken_for_rest():
    assert requests_until_rest([0.35, 0.3, 0.3]) == 3
    assert requests_until_rest([0.3 + 0.06, 0.3, 0.3, 0.3]) == 4
