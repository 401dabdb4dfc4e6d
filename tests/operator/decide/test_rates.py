"""The HPA's rate policies."""

import pytest
from msgspec.structs import replace

from cacheaware.decide.memory import Change, Memory
from cacheaware.decide.policy import Policy, RatePolicy, Rules
from cacheaware.decide.rates import paced

POLICIES = (RatePolicy("Percent", 100, 15), RatePolicy("Pods", 4, 15))


def memory(replicas, *changes):
    return replace(Memory.start(replicas, 0.0), changes=changes, orders=changes)


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

    assert paced(current, wanted, policy, memory(current), 0.0) == found


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

    assert paced(current, wanted, Policy(scale_down=down), memory(current), 0.0) == found


def test_a_period_counts_from_its_beginning():
    past = memory(6, Change(0.0, 1, 5), Change(10.0, 5, 7), Change(14.0, 7, 6))
    policy = Policy(scale_up=rules("Max", RatePolicy("Pods", 4, 15)))

    assert paced(6, 100, policy, past, 14.9) == 6, "5 came since, 4 may"
    assert paced(6, 100, policy, past, 15.0) == 9, "the first is no longer counted"
    assert paced(6, 100, policy, past, 60.0) == 10


def test_more_came_than_there_are_is_no_negative_beginning():
    past = memory(3, Change(0.0, 1, 50))
    policy = Policy(scale_up=rules("Max", RatePolicy("Percent", 100, 15)))

    assert paced(3, 9, policy, past, 1.0) == 3
    down = Policy(scale_down=rules("Max", RatePolicy("Pods", 4, 15)))
    assert paced(3, 0, down, past, 1.0) == 0


def test_pods_that_come_back_are_no_growth_and_cordons_are_a_shrink():
    one_a_minute = rules("Max", RatePolicy("Pods", 1, 60))
    policy = Policy(scale_up=one_a_minute, scale_down=one_a_minute)
    two_out = Memory.start(8, 0.0).cordoning(frozenset({"a", "b"}), 1.0)

    assert paced(6, 20, policy, two_out, 2.0) == 9, "two come back, and one may be ordered"
    assert paced(6, 1, policy, two_out, 2.0) == 6, "two were taken within the minute"
    back = two_out.cordoning(frozenset(), 3.0)
    assert paced(8, 1, policy, back, 4.0) == 7, "given back"
    assert paced(8, 20, policy, back, 4.0) == 9, "and still none was ordered"


def test_a_cordoned_pod_that_goes_was_counted_before():
    policy = Policy(scale_down=rules("Max", RatePolicy("Pods", 1, 60)))
    out = Memory.start(3, 0.0).cordoning(frozenset({"a"}), 0.0)
    gone = out.scaled(3, 2, 50.0, frozenset({"a"}))

    assert (gone.replicas, gone.current, gone.cordons) == (2, 2, frozenset())
    assert paced(2, 1, policy, gone, 59.0) == 2, "the cordon was a minute ago at 60 s"
    assert paced(2, 1, policy, gone, 60.0) == 1
