import math
from dataclasses import replace

import pytest

from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies.capacity import LatencyTargets, Lengths, largest_batch
from cacheaware_sim.policies.policy import Limits
from cacheaware_sim.policies.token_velocity import (
    DEFAULT,
    TokenVelocityPolicy,
    Velocities,
    velocities,
    velocity_replicas,
)

TO_40 = Limits(1, 40)
TARGETS = LatencyTargets(ttft_s=1.0, tpot_s=0.1)


@pytest.mark.parametrize(
    ("context", "tpot_s", "batch"),
    [
        pytest.param(1000, 0.1, 160, id="the cache: 160,000 of 1,000"),
        pytest.param(100, 0.1, 256, id="the scheduler"),
        pytest.param(1000, 0.03, 100, id="latency: (30 - 10) / 0.2"),
        pytest.param(1000, 0.005, 1, id="a target below the empty iteration: one"),
        pytest.param(0, 0.1, 256, id="no context"),
    ],
)
def test_the_largest_batch_is_bound_by(profile, context, tpot_s, batch):
    assert largest_batch(profile, context, tpot_s) == pytest.approx(batch)


def test_velocities_follow_from_the_profile(profile):
    # 106.7 requests of 1,500 tokens; TPOT 10 + 106.7 x (0.1 + 0.15) = 36.67 ms
    speed = velocities(profile, Lengths(1000, 1000), TARGETS)

    assert speed.prefill == 20_000
    assert speed.decode == pytest.approx(1000 * 106.6667 * 2000 / (1000 * 36.6667), rel=1e-4)


def test_a_prefill_without_cost_is_infinitely_fast(profile):
    free = replace(profile, cost=replace(profile.cost, a1_ms_per_ktok=0))

    assert velocities(free, Lengths(1000, 1000), TARGETS).prefill == math.inf


@pytest.mark.parametrize(
    ("rate", "utilization", "replicas"),
    [
        pytest.param(0, 0.8, 1, id="no traffic: one pod"),
        pytest.param(10, 0.8, 1, id="10,000/20,000 + 12,000/40,000 = 0.8: just one"),
        pytest.param(10.1, 0.8, 2, id="a little more"),
        pytest.param(40, 0.8, 4, id="four"),
        pytest.param(40, 0.4, 8, id="half the utilisation: twice the pods"),
    ],
)
def test_a_rate_of_requests_needs(rate, utilization, replicas):
    speed = Velocities(prefill=20_000, decode=40_000)

    assert velocity_replicas(rate, Lengths(1000, 200), speed, utilization) == replicas


@pytest.fixture
def policy(profile):
    return TokenVelocityPolicy(DEFAULT, profile, TARGETS, TO_40)


@pytest.fixture
def traffic(serving):
    """One pod on which `rate` requests/s of 1,000 + 1,000 tokens arrived and ended from `start`."""

    def make(now, replicas, rate, start=0.0, done=0.0):
        ended = done + rate * (now - start)
        tokens = {"prompt_tokens": 1000 * ended, "generation_tokens": 1000 * ended}
        return Observation(now, replicas, (serving("a", at=now, requests=ended, **tokens),))

    return make


def test_before_any_traffic_nothing_changes(policy, fleet):
    assert policy.decide(fleet(0, 8)).replicas == 8
    assert policy.decide(fleet(5, 8)).replicas == 8


def test_it_grows_within_two_intervals_of_a_burst(policy, traffic):
    for now in range(0, 65, 5):
        policy.decide(traffic(now, 2, 2))
    # 20 requests/s for 10 s: 20,000/20,000 + 40,000/5,818 = 7.87, over 0.8: 9.8
    policy.decide(traffic(65, 2, 20, start=60, done=120))

    assert policy.decide(traffic(70, 2, 20, start=60, done=120)).replicas == 10


def test_requests_that_wait_have_arrived(policy, traffic, serving):
    for now in range(0, 65, 5):
        policy.decide(traffic(now, 2, 2))
    tokens = {"prompt_tokens": 120_000, "generation_tokens": 120_000}
    for now, waiting in ((65, 100), (70, 200)):
        queue = serving("a", at=now, requests=120, waiting=waiting, **tokens)
        orders = policy.decide(Observation(now, 2, (queue,)))

    assert orders.replicas == 10


def test_a_shrink_waits_for_60_seconds_of_less(policy, traffic):
    for now in range(0, 65, 5):
        policy.decide(traffic(now, 10, 20))
    history = {
        now: policy.decide(traffic(now, 10, 2, start=60, done=1200)).replicas
        for now in range(65, 135, 5)
    }

    # 10 at 60 s, 6 at 65 s (half a window of the old rate), 1 from 70 s on
    assert [history[at] for at in (115, 120, 125)] == [10, 6, 1]


def test_the_limits_hold(profile, traffic):
    policy = TokenVelocityPolicy(DEFAULT, profile, TARGETS, Limits(3, 6))

    for now in (0, 5, 10):
        most = policy.decide(traffic(now, 4, 40)).replicas
    assert most == 6
    slow = TokenVelocityPolicy(DEFAULT, profile, TARGETS, Limits(3, 6))
    for now in (0, 5, 10):
        least = slow.decide(traffic(now, 3, 0.4)).replicas
    assert least == 3
