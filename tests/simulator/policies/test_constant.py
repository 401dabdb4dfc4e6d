from dataclasses import replace

import pytest

from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.policies.constant import (
    ConstantPolicy,
    load_curve,
    mean_replicas,
    peak_replicas,
)
from cacheaware_sim.policies.policy import Limits

TARGETS = LatencyTargets(ttft_s=1.0, tpot_s=0.1)


def test_a_request_is_worth_its_prefill_and_its_share_of_each_iteration(profile):
    # prefill 50 ms; 1,000 steps of 0.1 + 0.15 + 10/106.6 ms: 250 + 93.8; in all 393.8 ms
    (load,) = load_curve([(0.0, 1000, 1001)], profile, TARGETS, bin_s=1)

    assert load == pytest.approx(0.3939, abs=2e-4)


def test_attention_inside_a_prompt_is_work(profile):
    quadratic = replace(profile, cost=replace(profile.cost, a2_ms_per_mtok2=2))

    (load,) = load_curve([(0.0, 1000, 1)], quadratic, TARGETS, bin_s=1)
    assert load == pytest.approx(0.052)


def test_the_curve_goes_from_the_first_bin_to_the_last_with_the_empty_ones(profile):
    demand = [(65.0, 2000, 1), (5.0, 1000, 1), (8.0, 1000, 1), (185.0, 1000, 1)]

    load = load_curve(demand, profile, TARGETS, bin_s=60)
    assert load == pytest.approx([0.1 / 60, 0.1 / 60, 0, 0.05 / 60])


def test_a_trace_without_requests_needs_one_pod(profile):
    assert load_curve([], profile, TARGETS, bin_s=60) == []
    assert (peak_replicas([], 0.8), mean_replicas([], 0.8)) == (1, 1)


@pytest.mark.parametrize(
    ("load", "peak", "mean"),
    [
        pytest.param([3.2], 4, 4, id="one bin"),
        pytest.param([0.0, 8.0], 10, 5, id="half the time"),
        pytest.param([0.01], 1, 1, id="at least one"),
        pytest.param([1.0, 1.0, 1.1], 2, 2, id="rounded up"),
        pytest.param([1.6, 1.6], 2, 2, id="just two"),
    ],
)
def test_at_a_utilisation_of_0_8_a_load_needs(load, peak, mean):
    assert (peak_replicas(load, 0.8), mean_replicas(load, 0.8)) == (peak, mean)


def test_a_constant_is_the_same_whatever_comes(fleet):
    policy = ConstantPolicy("constant-6", 6, Limits(1, 40))

    assert [
        policy.decide(seen).replicas
        for seen in (
            fleet(0, 8),
            fleet(60, 6, usage=1.0),
            fleet(120, 6, silent=True),
            fleet(180, 1),
        )
    ] == [6, 6, 6, 6]


def test_what_a_trace_needs_is_brought_into_the_limits():
    assert ConstantPolicy("static-peak", 90, Limits(1, 40)).decide(None).replicas == 40
