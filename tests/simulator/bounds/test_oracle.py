from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheaware_sim.bounds.oracle import (
    Knowledge,
    OraclePolicy,
    OracleSettings,
    Plan,
    needed,
    oracle_of,
    ordered,
    smoothed,
)
from cacheaware_sim.bounds.work import Curves
from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.policies.policy import Limits
from cacheaware_sim.policies.registry import Setup

WIDE = Limits(1, 40)


def test_smoothing_over_one_bin_changes_nothing_and_over_more_keeps_a_steady_load():
    assert smoothed([1.0, 5.0, 2.0], 1) == [1, 5, 2]
    assert smoothed([2.0] * 9, 6) == [2] * 9
    assert smoothed([0, 0, 0, 6, 0, 0, 0], 6) == [0, 1.5, 1.2, 1, 1, 1.2, 1.5]


@pytest.mark.parametrize(
    ("load", "utilization", "limits", "need"),
    [
        pytest.param([0.5, 0.5], 0.5, WIDE, [1, 1], id="just one"),
        pytest.param([0.51, 0.0, 0.0], 0.5, WIDE, [2, 2, 1], id="rounded up, and for the next bin"),
        pytest.param([9.0, 0.0], 0.5, Limits(2, 7), [7, 7], id="the most"),
        pytest.param([0.0, 0.0], 0.5, Limits(2, 7), [2, 2], id="the least"),
        pytest.param([1.0, 2.0], 1.0, WIDE, [1, 2], id="fully loaded"),
    ],
)
def test_so_many_pods_are_needed(load, utilization, limits, need):
    assert needed(load, OracleSettings(utilization), limits) == need


@pytest.mark.parametrize(
    ("need", "ahead", "replicas"),
    [
        pytest.param([0, 0, 0, 2, 0], 2, [0, 2, 2, 2, 0], id="early enough"),
        pytest.param([1, 0, 0, 1], 2, [1, 1, 1, 1], id="a gap of a start is bridged"),
        pytest.param([1, 0, 0, 0, 1], 2, [1, 0, 1, 1, 1], id="a longer one is not"),
        pytest.param([3, 1, 1, 2, 1], 2, [3, 2, 2, 2, 1], id="level by level"),
        pytest.param([0, 1], 0, [0, 1], id="pods that start at once"),
    ],
)
def test_replicas_are_ordered_ahead(need, ahead, replicas):
    assert ordered(need, ahead) == replicas


def least_cost(need, ahead):
    """Of all serving schedules: bins served, and `ahead` more for each start."""
    return min(
        sum(serving)
        + ahead * sum(max(0, b - a) for a, b in zip((0, *serving), serving, strict=False))
        for serving in product(*(range(least, max(need) + 1) for least in need))
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 3))
def test_no_schedule_that_serves_the_need_costs_less(tail, ahead):
    need = [0] * ahead + tail

    assert sum(ordered(need, ahead)) == least_cost(need, ahead)


def test_a_plan_looks_ahead_by_a_slow_start_and_ends_with_its_last_number():
    work = Curves(5.0, arrived=(0.0,) * 6 + (10.0,) + (0.0,) * 3, due=(0.0,) * 10)
    known = Knowledge(work=work, cold_start_s=(10.0, 3.0), limits=WIDE)

    plan = known.plan(OracleSettings(utilization=0.5))

    # 10 s of work in 5 s at half load: 4 pods, in their bin and the next, 14.5 s ahead
    assert plan.replicas == (1, 1, 1, 4, 4, 4, 4, 4, 1, 1)
    assert plan.pod_seconds == 5 * (5 * 4 + 5 * 1)
    assert [plan.at(now) for now in (0.0, 14.9, 15.0, 39.9, 40.0, 49.0, 1e6)] == [
        1, 1, 4, 4, 1, 1, 1,
    ]  # fmt: skip


def test_the_policy_asks_for_what_it_has_planned(profile):
    # from 60 s on 20 prompts of 1,000 tokens a second: a pod's work
    demand = [(60 + n / 20, 1000, 1) for n in range(1200)]
    setup = Setup(
        limits=WIDE,
        profile=profile,
        targets=LatencyTargets(),
        demand=lambda: iter(demand),
        cold_start_s=(20.0, 0.0),
    )
    policy = oracle_of(setup)

    asked = [policy.decide(Observation(now, 1, ())).replicas for now in (5.0, 35.0, 40.0, 100.0)]
    assert asked == [1, 1, 2, 2]

    policy = OraclePolicy(policy.known, OracleSettings(utilization=0.1))
    assert policy.decide(Observation(100.0, 1, ())).replicas == 10
    policy.wrote(1, 10, 100.0)
    assert policy.decide(Observation(100.0, 1, ())).replicas == 10


def test_a_plan_costs_what_it_asks_for():
    assert Plan(5.0, (1, 2, 3)).pod_seconds == 30
