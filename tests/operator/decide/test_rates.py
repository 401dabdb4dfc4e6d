"""The HPA's rate policies."""

import pytest

from cacheaware.decide.memory import Change
from cacheaware.decide.policy import Policy, RatePolicy, Rules
from cacheaware.decide.rates import paced

POLICIES = (RatePolicy("Percent", 100, 15), RatePolicy("Pods", 4, 15))


def rules(select="Max", *policies):
    return Rules(stabilization_seconds=0, select=select, policies=policies or POLICIES)


@pytest.mark.parametrize(
    ("current", "wanted", "select", "found"),
    [
        (1, 100, "Max", 5),
        (10, 100, "Max", 20),
        (10, 100, "Min", 14),
        (10, 100, "Disabled", 10),
        (10, 12, "Max", 12),
        (10, 10, "Max", 10),
        (10, 1, "Max", 1),
    ],
)
def test_growing(current, wanted, select, found):
    policy = Policy(scale_up=rules(select), scale_down=rules("Max", RatePolicy("Percent", 100, 15)))

    assert paced(current, wanted, policy, (), 0.0) == found


@pytest.mark.parametrize(
    ("current", "wanted", "select", "found"),
    [
        (5, 1, "Max", 4),
        (20, 1, "Max", 18),
        (25, 1, "Max", 22),
        (25, 1, "Min", 24),
        (25, 1, "Disabled", 25),
        (25, 24, "Max", 24),
    ],
)
def test_shrinking(current, wanted, select, found):
    down = rules(select, RatePolicy("Percent", 10, 60), RatePolicy("Pods", 1, 60))

    assert paced(current, wanted, Policy(scale_down=down), (), 0.0) == found


def test_a_period_counts_from_its_beginning():
    changes = (Change(0.0, 1, 5), Change(10.0, 5, 7), Change(14.0, 7, 6))
    policy = Policy(scale_up=rules("Max", RatePolicy("Pods", 4, 15)))

    assert paced(6, 100, policy, changes, 14.9) == 6, "5 came since, 4 may"
    assert paced(6, 100, policy, changes, 15.0) == 9, "the first is no longer counted"
    assert paced(6, 100, policy, changes, 60.0) == 10


def test_more_came_than_there_are_is_no_negative_beginning():
    changes = (Change(0.0, 1, 50),)
    policy = Policy(scale_up=rules("Max", RatePolicy("Percent", 100, 15)))

    assert paced(3, 9, policy, changes, 1.0) == 3
    down = Policy(scale_down=rules("Max", RatePolicy("Pods", 4, 15)))
    assert paced(3, 0, down, changes, 1.0) == 0
