"""Quantiles in little memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sim.fleet.quantiles import LEAST, Quantiles


@given(st.lists(st.floats(1e-3, 1e4), min_size=1, max_size=200), st.floats(0, 1))
def test_a_quantile_is_right_within_half_a_per_cent(values, q):
    some = Quantiles()
    for value in values:
        some.add(value)

    rank = max(1, -int(-(q * len(values)) // 1))
    assert some.at(q) == pytest.approx(sorted(values)[rank - 1], rel=0.005)


def test_of_nothing_there_is_none():
    assert Quantiles().at(0.5) is None


def test_the_least_and_the_largest_have_a_bin():
    some = Quantiles()
    for value in (0.0, -1.0, LEAST, 1e9):
        some.add(value)

    assert some.at(0.75) == 0.0
    assert some.at(1.0) > 1e4
