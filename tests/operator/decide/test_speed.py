"""A decision for 100 pods takes at most 2 ms, and one for 5,000 fifty times as long."""

import sys
import time

import pytest
from msgspec.structs import replace

from cacheaware.decide import Memory, decide
from cacheaware.decide.learned import Learned
from cacheaware.decide.policy import Policy, RatePolicy, Rules

BUDGET_S = 0.002
YARDSTICK_S = 0.0005
"""What the yardstick takes on the machine that the budget is meant for: a quiet core of a cloud's
virtual machine. Where the yardstick takes longer, in the same moments, so may a decision.
"""
LINEAR = 2.5
"""Sorting, and caches that no longer hold all, make fifty times as many pods a little dearer."""


@pytest.fixture
def settings(make):
    """A fleet with an hour behind it that is about to grow or to shrink."""

    def of(going, pods, **view):
        used = 90_000.0 if going == "growing" else 0.0
        fleet = make.fleet(
            (
                make.tokens(
                    f"p{i:04}",
                    used=used,
                    waiting=0.0,
                    running=0.0,
                    tokens_per_request=900.0,
                    prompt_tokens_per_request=800.0,
                    new_prompt_tokens=9000.0 if used else 0.0,
                    idle_rounds=9,
                    **view,
                )
                for i in range(pods)
            ),
            learned=Learned(prefill_tokens_per_s=9000.0),
        )
        rules = Rules(stabilization_seconds=300, policies=(RatePolicy("Percent", 100, 15),))
        policy = Policy(
            mode="Scale", max_replicas=2 * pods, scale_down=rules, drain_share_percent=100
        )
        memory = replace(Memory.start(pods, 0.0), peaks=(), lows=())
        for second in range(0, 400, 5):
            _, memory = decide(fleet, policy, memory, float(second))
        return fleet, policy, replace(memory, peaks=(), lows=())

    return of


@pytest.mark.benchmark
@pytest.mark.parametrize("going", ["growing", "shrinking"])
def test_a_decision_for_100_pods_takes_two_milliseconds_at_most(settings, going):
    setting = settings(going, 100)
    took, yardstick = [], []
    for _ in range(200):
        took.append(timed(lambda: decide(*setting, 400.0)))
        yardstick.append(timed(lambda: sum(number * number for number in range(10_000))))
    slow = max(1.0, min(yardstick) / YARDSTICK_S)
    share = min(took) / slow / BUDGET_S
    print(
        f"\ndecide, 100 pods, {going}: {min(took) * 1000:.2f} ms on a machine that takes"
        f" {slow:.2f} times as long = {share:.0%} of the budget"
    )

    assert decide(*setting, 400.0)[0].changes
    if sys.gettrace() is None:  # a coverage run takes five times as long
        assert share <= 1


@pytest.mark.benchmark
@pytest.mark.parametrize("going", ["growing", "shrinking"])
@pytest.mark.parametrize("sidecar", [False, True])
def test_the_time_for_a_decision_grows_with_the_pods(settings, going, sidecar):
    few, many = settings(going, 100, sidecar=sidecar), settings(going, 5000, sidecar=sidecar)
    each = best_of(few, 50) / 100
    ratio = best_of(many, 5) / 5000 / each
    way = "with sidecars" if sidecar else "without"
    print(f"\ndecide, {going}, {way}: of 5,000 pods each takes {ratio:.2f} times that of 100")

    assert ratio < LINEAR


def best_of(setting, times):
    return min(timed(lambda: decide(*setting, 400.0)) for _ in range(times))


def timed(work):
    """The thread's own seconds: what else runs does not count."""
    began = time.thread_time()
    work()
    return time.thread_time() - began
