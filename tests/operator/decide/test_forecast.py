"""What will be needed, from the last hour."""

import random
from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cacheaware.decide.forecast import (
    EACH,
    LESS,
    WAYS,
    Way,
    forecast_of,
    highest,
    judged,
    judgement,
    latest,
    levels,
    path,
    quantile_of,
    reserve_of,
    steps_of,
)
from cacheaware.decide.history import MINUTE, History, Judged

WINDOW_S = 300
LONG = 180
"""Steps of three such windows."""

NEEDS = st.lists(st.floats(0, 50), min_size=1, max_size=200).map(np.array)


def told(needs, lead_s=60.0, window_s=WINDOW_S):
    """The forecast of a history in which each way was judged."""
    history = History(needs=array("d", needs))
    for turn in range(max(EACH, len(history.needs) // LESS) * len(WAYS)):
        seen = History(needs=history.needs, judged=history.judged, turn=turn)
        history = judged(seen, lead_s, window_s)
    return forecast_of(history, lead_s, window_s)


def test_nothing_is_foreseen_before_anything_was_judged():
    assert forecast_of(History(needs=array("d", [1.0] * 100)), 60.0, WINDOW_S) is None
    assert told([1.0] * (MINUTE + 11)) is None


def test_one_way_is_judged_at_a_time():
    once = judged(History(needs=array("d", [1.0] * 100), turn=EACH), 60.0, WINDOW_S)

    assert [one is not None for one in once.judged] == [False, True] + [False] * (len(WAYS) - 2)
    assert judged(History(needs=array("d", [1.0] * 100), turn=1), 60.0, WINDOW_S).judged == ()


@pytest.mark.parametrize(("steps", "judgements"), [(100, 18), (360, 18), (540, 12), (720, 9)])
def test_a_long_history_is_judged_less_often(steps, judgements):
    history = History(needs=array("d", [1.0] * steps))
    made = [judged(replace(history, turn=turn), 60.0, WINDOW_S).judged for turn in range(36)]
    assert sum(bool(one) for one in made) == judgements


def test_a_steady_need_is_foreseen_as_it_is():
    ahead = told([3.0] * 300)

    assert ahead.level == pytest.approx(3.0)
    assert ahead.need == pytest.approx(3.0)


def test_bursts_that_recur_are_met_by_standing_reserve():
    needs = [8.0 if step % 30 < 2 else 0.5 for step in range(589)]

    assert told(needs, lead_s=60.0).need == pytest.approx(8.0)


def test_a_burst_that_came_once_in_a_long_time_is_not():
    needs = [30.0 if 200 <= step < 203 else 2.0 for step in range(700)]

    assert told(needs).need == pytest.approx(2.0)


def test_a_burst_that_nearly_nothing_depends_on_is_not_either():
    needs = [2.6 if step % 200 == 0 else 2.0 for step in range(700)]

    assert told(needs).need < 2.6


def test_a_ramp_is_met_a_cold_start_ahead():
    needs = [step / 10 for step in range(424)]

    assert told(needs[:400], lead_s=120.0).need == pytest.approx(needs[-1])


def test_a_quiet_fleet_needs_nothing():
    assert told([0.0] * 400).need == 0.0


def test_a_way_that_sees_too_black_is_corrected_downwards():
    needs = [5.0] * 20 + [1.0] * 300
    one = judgement(Way(30), np.array(needs), 12, LONG)

    assert one.reserve < 0


def test_of_two_ways_the_cheaper_is_told():
    rng = random.Random(1)
    needs = [4.0 + rng.random() for _ in range(500)]
    costs = [judgement(way, np.array(needs), 12, LONG).cost for way in WAYS]

    assert told(needs).way == WAYS[costs.index(min(costs))]


def test_the_reserve_grows_with_the_share_of_work_that_comes_beyond():
    said = np.full(100, 4.0)
    few = reserve_of(said, np.array([4.0] * 97 + [6.0] * 3), 0.0)
    many = reserve_of(said, np.array([4.0] * 70 + [6.0] * 30), 0.0)

    assert few[0] == 0.0
    assert few[1] == pytest.approx(18 / 406)
    assert many == (2.0, pytest.approx(0.0))


def test_without_work_nothing_is_reserved():
    assert quantile_of(np.ones(1), np.zeros(1)) == 0.0
    assert reserve_of(np.ones(1), np.zeros(1), 0.5) == (0.5, 0.0)


def test_in_a_short_history_a_burst_that_came_once_counts():
    needs = [30.0 if 60 <= step < 63 else 2.0 for step in range(100)]

    assert told(needs).need == pytest.approx(30.0)


def test_who_is_impatient_looks_back_less_far():
    needs = [30.0 if 60 <= step < 63 else 2.0 for step in range(100)]

    assert told(needs, window_s=60).need == pytest.approx(2.0)
    assert told(needs, window_s=59) is None
    assert told(needs, window_s=0) is None


def test_a_window_that_is_made_shorter_ends_what_rests_on_a_longer_past():
    history = History(
        needs=array("d", [1.0] * 100), judged=(Judged(reserve=1.0, cost=1.0),), turn=1
    )

    assert judged(history, 60.0, 0).judged == ()


@pytest.mark.parametrize(("lead_s", "steps"), [(0.0, 1), (4.0, 1), (5.0, 1), (5.1, 2), (65.0, 13)])
def test_a_time_ahead_is_rounded_up_to_steps(lead_s, steps):
    assert steps_of(lead_s) == steps


def test_ways_are_told_in_words():
    assert [str(way) for way in (WAYS[0], WAYS[2], WAYS[-1])] == [
        "the highest minute of the last",
        "the highest minute of 5",
        "the last minute and its trend over 5 min",
    ]


@given(NEEDS)
def test_a_level_is_the_mean_of_a_minute(needs):
    found = levels(needs)

    for at in range(len(needs)):
        part = needs[max(0, at + 1 - MINUTE) : at + 1]
        assert found[at] == pytest.approx(sum(part) / len(part), abs=1e-6)


@given(NEEDS, st.integers(1, 30))
def test_the_highest_is_the_highest(numbers, steps):
    expected = [max(numbers[max(0, at + 1 - steps) : at + 1]) for at in range(len(numbers))]

    assert highest(numbers, steps).tolist() == expected


@given(NEEDS, st.sampled_from(WAYS), st.integers(1, 40))
def test_no_way_says_less_than_the_last_minute(needs, way, lead):
    level = levels(needs)

    assert all(word >= now for word, now in zip(path(way, level, lead), level, strict=True))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 50), min_size=40, max_size=200), st.floats(1, 100), st.floats(0.1, 8))
def test_twice_the_need_is_twice_the_forecast_at_most_a_pod_apart(needs, lead_s, factor):
    one, other = told(needs, lead_s), told([factor * need for need in needs], lead_s)
    if one is None:
        return
    assert other.need >= 0.0
    assert other.level >= factor * levels(np.array(needs))[-1] - 1e-6


@given(NEEDS, st.sampled_from(WAYS), st.integers(1, 40))
def test_the_latest_is_the_last_of_the_path(needs, way, lead):
    level = levels(needs)

    assert latest(way, level, lead) == pytest.approx(path(way, level, lead)[-1])
