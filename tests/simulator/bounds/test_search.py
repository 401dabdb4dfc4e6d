import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sim.bounds.oracle import OracleSettings
from cacheaware_sim.bounds.search import SMOOTHINGS, UTILIZATIONS, cheapest, ladders


def searched(tightest, ladders=None):
    """A search where each smoothing reaches the target up to a utilisation; and what it tried."""
    tried = []

    def attempt(settings):
        tried.append(settings)
        return "good" if settings.utilization <= tightest[settings.smoothing] else None

    def price(settings):
        return 1 / settings.utilization

    found = cheapest(ladders or ladders_of(tightest), price, attempt)
    assert found.runs == len(tried)
    return found, tried


def ladders_of(tightest):
    return [[OracleSettings(each, smoothing) for each in UTILIZATIONS] for smoothing in tightest]


def tightest_rung(limit):
    return max((each for each in UTILIZATIONS if each <= limit), default=None)


@given(st.floats(0.1, 2.1))
def test_one_ladder_is_climbed_to_its_last_good_rung_in_few_runs(limit):
    found, tried = searched({1: limit})

    best = found.best and found.best[0].utilization
    assert best == tightest_rung(limit)
    assert len(tried) <= 10


@given(*[st.floats(0.1, 2.1)] * 3)
def test_the_best_of_all_ladders_is_found(one, two, three):
    found, tried = searched({1: one, 3: two, 6: three})

    limit = max(one, two, three)
    best = found.best and found.best[0].utilization
    assert best == tightest_rung(limit)
    assert len(tried) == len(set(tried)) <= 32


def test_a_ladder_that_promises_nothing_costs_one_run():
    _, alone = searched({1: 0.6})
    found, tried = searched({1: 0.6, 3: 0.6, 6: 0.5})

    assert found.best[0].smoothing == 1
    assert len(tried) == len(alone) + 2


def test_a_ladder_that_is_better_is_climbed_from_where_the_best_one_ended():
    _, alone = searched({1: 0.6})
    found, tried = searched({1: 0.6, 3: 0.65})

    assert found.best[0] == OracleSettings(tightest_rung(0.65), 3)
    assert len(tried) <= len(alone) + 5
    assert all(settings.utilization > 0.59 for settings in tried[len(alone) :])


def test_a_rung_that_fails_by_bad_luck_does_not_hide_the_next_one():
    ladder = [OracleSettings(each, 1) for each in UTILIZATIONS]
    unlucky, last = ladder[61], ladder[62]

    def attempt(settings):
        return "good" if settings <= last and settings != unlucky else None

    def best(least):
        found = cheapest([ladder[least:]], lambda settings: 1 / settings.utilization, attempt)
        return found.best[0]

    assert {best(least) for least in range(60)} == {last}


def test_where_no_rung_is_cheaper_nothing_is_tried():
    found, tried = searched({1: 9.0, 3: 9.0})

    assert found.best[0] == OracleSettings(UTILIZATIONS[-1], 1)
    assert {settings.smoothing for settings in tried} == {1}


def test_where_nothing_reaches_the_target_nothing_is_found():
    assert searched({1: 0.0, 3: 0.0})[0].best is None


def test_all_settings_go_from_the_most_generous_to_the_tightest():
    steps = [list(ladder) for ladder in ladders()]

    assert [ladder[0].smoothing for ladder in steps] == list(SMOOTHINGS) == [1, 3, 6]
    for ladder in steps:
        utilizations = [settings.utilization for settings in ladder]
        assert utilizations == sorted(utilizations)
        assert (utilizations[0], utilizations[-1]) == (0.15, pytest.approx(2.0, rel=0.01))
