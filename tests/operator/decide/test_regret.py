"""Shrinks that were taken back soon make the next ones slower."""

import pytest

from cacheaware.decide.memory import Change
from cacheaware.decide.policy import Policy, RatePolicy, Rules
from cacheaware.decide.regret import regrets, window_s

DOWN, UP = (5, 4), (4, 5)


def changes(*moves):
    return tuple(Change(at, *move) for at, move in moves)


@pytest.mark.parametrize(
    ("moves", "count"),
    [
        ((), 0),
        (((0, UP),), 0),
        (((0, DOWN),), 0),
        (((0, DOWN), (600, UP)), 1),
        (((0, DOWN), (601, UP)), 0),
        (((0, DOWN), (5, UP)), 0),
        (((0, DOWN), (100, DOWN), (650, UP)), 1),
        (((0, DOWN), (100, UP), (200, UP)), 1),
        (((0, DOWN), (100, UP), (200, DOWN), (300, UP)), 2),
    ],
)
def test_a_shrink_is_regretted_when_the_fleet_grows_again_within_ten_minutes(moves, count):
    assert regrets(changes(*moves)) == count


def test_a_regret_is_forgotten_after_half_an_hour():
    once = changes((0, DOWN), (300, UP))

    assert window_s(300, once, 1700.0) == 600
    assert window_s(300, once, 2200.0) == 300


def test_the_window_has_limits():
    often = changes(*((60 * n, DOWN if n % 2 else UP) for n in range(20)))

    assert window_s(300, often, 1200.0) == 1200
    assert window_s(3000, often, 1200.0) == 3600
    assert window_s(0, often, 1200.0) == 0


def test_a_fleet_that_took_back_a_shrink_waits_longer_for_the_next_and_says_so(make, rounds):
    fast = (RatePolicy("Pods", 10, 15),)
    policy = Policy(
        mode="Scale",
        scale_up=Rules(stabilization_seconds=0, policies=fast),
        scale_down=Rules(stabilization_seconds=60, policies=fast),
        drain_share_percent=100,
    )
    life, replicas, shrunk = rounds(policy, replicas=4), 4, []
    for second in range(0, 600, 10):
        demand = 2.4 if 100 <= second < 150 else 0.2
        load = {"kv": min(1.0, demand / replicas), "running": float(demand > 1)}
        pods = [make.pod(f"p{n}", idle_rounds=9 * (demand < 1), **load) for n in range(replicas)]
        made = life.round(make.fleet(pods), after=10)
        shrunk += [second] * (made.desired < replicas)
        replicas = made.desired
        if 150 <= second < 200 and shrunk and made.reason == "Stabilizing":
            assert "longer for shrinks that were taken back" in made.message

    first, *later = shrunk
    assert first < 100
    assert any(one >= 150 + 120 for one in later)
    assert not any(150 <= one < 150 + 110 for one in later)
