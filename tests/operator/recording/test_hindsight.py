"""The cheapest replicas that cover a need, and the regret beside them."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware.recording.hindsight import Moment, covering, regret_of


def moments(replicas, need, *, serving=None, seconds=5.0):
    serving = replicas if serving is None else serving
    return [
        Moment(at_s=n * seconds, seconds=seconds, replicas=one, serving=up, need=wanted)
        for n, (one, up, wanted) in enumerate(zip(replicas, serving, need, strict=True))
    ]


def regret(found, *, least=1, most=10, cold=10.0):
    return regret_of(found, least=least, most=most, cold_start_s=cold)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=7), st.integers(0, 3))
def test_no_schedule_that_covers_the_need_in_time_is_cheaper(need, cold):
    """A pod serves from `cold` rounds after it was ordered, without a break; tried by all means."""
    found = covering(range(len(need)), need, cold)
    cheapest = min(
        sum(plan) for plan in product(range(4), repeat=len(need)) if covers(plan, need, cold)
    )

    assert covers(found, need, cold)
    assert sum(found) == cheapest


def covers(plan, need, cold):
    """Whether there are enough pods that were there for the `cold` rounds before, too."""
    return all(min(plan[max(0, at - cold) : at + 1]) >= wanted for at, wanted in enumerate(need))


def test_a_schedule_looks_ahead_by_time_not_by_rounds():
    assert covering([0.0, 1.0, 50.0, 51.0], [1, 1, 1, 4], 10.0) == [1, 1, 4, 4]


def test_of_nothing_there_is_no_cost():
    found = regret([])

    assert (found.recorded, found.hindsight, found.percent) == (0, 0, None)


def test_replicas_that_were_never_needed_are_the_regret():
    found = regret(moments([4] * 10, [2] * 10))

    assert (found.recorded, found.hindsight, found.over) == (200, 100, 100)
    assert found.percent == pytest.approx(100)
    assert (found.short_s, found.shrinks) == (0, 0)


def test_hindsight_orders_a_cold_start_ahead():
    found = regret(moments([1] * 4, [1, 1, 1, 3]))

    assert found.schedule == (1, 3, 3, 3)
    assert found.short_s == 5
    assert found.percent == pytest.approx(-60)


def test_the_need_is_kept_within_the_bounds_and_what_is_beyond_them_is_told():
    found = regret(moments([2] * 3, [0, 5, 2]), least=1, most=3, cold=0)

    assert found.schedule == (1, 3, 2)
    assert (found.short_s, found.beyond_s) == (5, 5)


def test_where_the_need_is_unknown_hindsight_orders_what_was_ordered():
    found = regret(moments([4, 4, 2], [None, 2, 2]), cold=0)

    assert found.schedule == (4, 2, 2)
    assert found.unknown_s == 5


@pytest.mark.parametrize(
    ("rounds_low", "regretted"), [(119, 1), (120, 0)], ids=["within ten minutes", "later"]
)
def test_a_shrink_that_is_undone_within_ten_minutes_was_one_to_regret(rounds_low, regretted):
    replicas = [4, 4, *[2] * rounds_low, *[3] * 10]
    found = regret(moments(replicas, [2] * len(replicas)))

    # It shrinks in the third round and has grown again so many rounds of 5 s later.
    assert (found.shrinks, found.regretted) == (1, regretted)
