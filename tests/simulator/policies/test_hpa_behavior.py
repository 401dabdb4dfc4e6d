import pytest

from cacheaware_sim.policies.hpa_behavior import (
    DEFAULT_BEHAVIOR,
    Behavior,
    Changed,
    Rate,
    Recommended,
    Rules,
    limited,
    stabilized,
)
from cacheaware_sim.policies.policy import Limits

TO_40 = Limits(1, 40)
WAITS_60 = Behavior(up=Rules(60, DEFAULT_BEHAVIOR.up.rates))


@pytest.mark.parametrize(
    ("current", "desired", "past", "now", "behavior", "replicas"),
    [
        pytest.param(4, 8, [(90, 3)], 100, DEFAULT_BEHAVIOR, 8, id="growth does not wait"),
        pytest.param(8, 2, [(90, 8)], 100, DEFAULT_BEHAVIOR, 8, id="a shrink waits"),
        pytest.param(8, 2, [(90, 5)], 100, DEFAULT_BEHAVIOR, 5, id="it goes to the highest"),
        pytest.param(8, 2, [(100, 8)], 400, DEFAULT_BEHAVIOR, 2, id="300 s ago is too old"),
        pytest.param(8, 2, [(101, 8)], 400, DEFAULT_BEHAVIOR, 8, id="299 s ago is not"),
        pytest.param(8, 2, [(90, 20)], 100, DEFAULT_BEHAVIOR, 8, id="a shrink never grows"),
        pytest.param(4, 8, [(50, 5)], 100, WAITS_60, 5, id="growth goes to the lowest"),
        pytest.param(4, 8, [(50, 2)], 100, WAITS_60, 4, id="a growth never shrinks"),
        pytest.param(4, 8, [(40, 2)], 100, WAITS_60, 8, id="60 s ago is too old"),
    ],
)
def test_the_windows_leave(current, desired, past, *, now, behavior, replicas):
    recommended = [Recommended(*each) for each in past]

    assert stabilized(current, desired, recommended, behavior, now) == replicas


@pytest.mark.parametrize(
    ("current", "desired", "changes", "replicas"),
    [
        pytest.param(1, 30, [], 5, id="four more where doubling is less"),
        pytest.param(4, 30, [], 8, id="four or double"),
        pytest.param(10, 30, [], 20, id="doubled where that is more"),
        pytest.param(30, 90, [], 40, id="the maximum"),
        pytest.param(8, 30, [(90, 4)], 8, id="what was added in these 15 s counts"),
        pytest.param(8, 30, [(85, 4)], 16, id="what was added 15 s ago does not"),
        pytest.param(8, 30, [(90, -2)], 20, id="what was removed is given back"),
        pytest.param(30, 0, [], 1, id="all but the minimum may go"),
        pytest.param(8, 6, [], 6, id="a small step goes through"),
        pytest.param(8, 8, [], 8, id="none"),
    ],
)
def test_the_default_rates_leave(current, desired, changes, replicas):
    changed = [Changed(*each) for each in changes]

    assert limited(current, desired, changed, DEFAULT_BEHAVIOR, limits=TO_40, now=100.0) == replicas


@pytest.mark.parametrize(
    ("select", "up", "down"),
    [
        pytest.param("Max", 15, 8, id="the policy that changes most"),
        pytest.param("Min", 12, 9, id="the policy that changes least"),
        pytest.param("Disabled", 10, 10, id="no change"),
    ],
)
def test_of_two_rates_is_selected(select, up, down):
    rules_up = Rules(0, (Rate("Pods", 2, 60), Rate("Percent", 50, 60)), select)
    rules_down = Rules(0, (Rate("Pods", 2, 60), Rate("Percent", 10, 60)), select)
    behavior = Behavior(rules_up, rules_down)

    assert limited(10, 40, (), behavior, limits=TO_40, now=0.0) == up
    assert limited(10, 1, (), behavior, limits=TO_40, now=0.0) == down


def test_percentages_round_towards_more_pods_on_growth_and_fewer_on_a_shrink():
    behavior = Behavior(Rules(0, (Rate("Percent", 10, 60),)), Rules(0, (Rate("Percent", 10, 60),)))

    assert limited(5, 40, (), behavior, limits=TO_40, now=0.0) == 6
    assert limited(5, 1, (), behavior, limits=TO_40, now=0.0) == 4


def test_pods_of_a_rate_come_back_as_their_period_ends():
    behavior = Behavior(up=Rules(0, (Rate("Pods", 2, 60),)))

    assert limited(12, 40, (Changed(0, 2),), behavior, limits=TO_40, now=59) == 12
    assert limited(12, 40, (Changed(0, 2),), behavior, limits=TO_40, now=60) == 14


def test_a_shrink_by_somebody_else_does_not_force_more_of_it():
    behavior = Behavior(down=Rules(0, (Rate("Pods", 1, 60),)))

    assert limited(5, 1, (Changed(0, -3),), behavior, limits=TO_40, now=10) == 5
