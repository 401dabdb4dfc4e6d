"""Values with a span."""

import pytest

from cacheaware.model.estimates import Estimate, exactly


def test_a_sum_is_as_wide_as_both():
    assert Estimate(1, 2, 3) + Estimate(10, 20, 40) == Estimate(11, 22, 43)


def test_what_is_left_is_least_where_most_is_taken():
    assert Estimate(1, 2, 5).taken_from(Estimate(10, 20, 30)) == Estimate(5, 18, 29)


def test_a_factor_and_a_rising_function_keep_the_order():
    assert Estimate(1, 2, 5).scaled(2) == Estimate(2, 4, 10)
    assert Estimate(1, 2, 5).rising(lambda value: value // 2) == Estimate(0, 1, 2)


def test_what_is_known_has_no_span():
    assert exactly(7) == Estimate(7, 7, 7)


def test_a_span_has_its_ends_in_order():
    with pytest.raises(ValueError, match="no span"):
        Estimate(2, 1, 3)
