"""Pods whose engine sleeps hold a GPU and serve nothing."""

import pytest
from tests.operator.decide.small_cluster import POLICY, cluster, serving

from cacheaware.decide.fleet import PodLoad
from cacheaware.decide.policy import Policy, RatePolicy, Rules

FAST = Rules(stabilization_seconds=0, policies=(RatePolicy("Percent", 100, 15),))
FREE = {"scale_down": FAST, "drain_share_percent": 100}
ASLEEP = PodLoad(usage=0.0, running=0.0, waiting=0.0, sleeping=True)


def asleep(make, name, **numbers):
    load = PodLoad(**{"usage": 0.0, "running": 0.0, "waiting": 0.0, "sleeping": True, **numbers})
    return make.pod(name, load=load, idle_rounds=9)


def test_a_sleeping_pod_is_no_supply_that_is_empty(make, once):
    pods = [make.pod("a", kv=0.95, running=8.0), make.pod("b", kv=0.95, running=8.0)]

    decision = once(make.fleet([*pods, asleep(make, "c")]))

    assert (decision.raw, decision.desired, decision.serving) == (3, 4, 2)
    assert decision.inputs["sleeping"] == 1
    assert "1 pod with a sleeping engine: no supply, and the first to go" in decision.message


def test_its_gauge_says_nothing_however_full_it_stopped(make, once):
    pods = [make.pod("a", kv=0.5, running=8.0), asleep(make, "b", usage=1.0, waiting=30.0)]

    assert once(make.fleet(pods)).raw == 1


def test_a_fleet_with_a_sleeping_pod_grows_once_and_rests(make, rounds):
    life = rounds(Policy(mode="Scale", max_replicas=20), replicas=3)
    busy = [make.pod(name, kv=0.95, running=8.0) for name in "ab"]
    grown = life.round(make.fleet([*busy, asleep(make, "c")]), after=15)
    calm = [make.pod(name, kv=0.63, running=8.0) for name in "abd"]

    found = [
        life.round(make.fleet([*calm, asleep(make, "c")]), after=15, write=False).desired
        for _ in range(10)
    ]

    assert grown.desired == 4
    assert set(found) == {4}


def test_while_the_rest_will_just_do_it_goes_after_the_window(make, rounds):
    life = rounds(Policy(mode="Scale", drain_share_percent=100), replicas=3)
    view = make.fleet([*(make.pod(n, kv=0.75, running=3.0) for n in "ab"), asleep(make, "c")])

    for _ in range(30):
        decision = life.round(view, after=15)
        if decision.changes:
            break

    assert life.now >= 1000 + 300
    assert (decision.desired, [one.pod for one in decision.victims]) == (2, ["c"])


def test_while_what_is_unknown_may_need_more_than_are_awake_it_stays(make, once):
    pods = [make.pod(name, kv=0.79, running=8.0) for name in "ab"]
    silent = make.unknown("c")

    decision = once(make.fleet([*pods, silent, asleep(make, "d")]), **FREE)

    assert (decision.desired, decision.victims, decision.cordons) == (4, (), ())


def test_it_is_the_first_to_go_before_a_pod_that_is_as_empty(make, once):
    pods = [
        make.idle("a", load=PodLoad(usage=0.0, running=0.0, waiting=0.0)),
        asleep(make, "b", prompt_tokens_per_s=9.0, prefix_hit_ratio=0.9),
    ]

    decision = once(make.fleet(pods), **FREE)

    assert [one.pod for one in decision.victims] == ["b"]


def test_with_a_sidecar_it_is_cordoned_first_and_the_reason_says_why():
    pods = [serving("a", kv=0.1), serving("b", load=ASLEEP)]
    life = cluster(*pods, policy=POLICY)

    made = life.round()

    assert [one.pod for one in made.cordons] == ["b"]
    assert made.cordons[0].reason.startswith("worth least: its engine sleeps, 0 requests")
    life.empty("b")
    assert [one.pod for one in life.round().victims] == ["b"]
    assert life.spec == 1


def test_one_that_still_holds_requests_is_worth_what_they_are(make, once):
    held = PodLoad(usage=0.4, running=9.0, waiting=0.0, sleeping=True)
    pods = [
        make.pod("a", kv=0.0, running=0.0, sidecar=True),
        make.pod("b", load=held, sidecar=True),
        make.pod("c", kv=0.3, running=30.0, sidecar=True),
    ]

    assert [one.pod for one in once(make.fleet(pods), **FREE).cordons] == ["a", "b"]


def test_where_all_sleep_nothing_is_known_and_nothing_changes(make, once):
    decision = once(make.fleet([asleep(make, "a"), asleep(make, "b")]), **FREE)

    assert (decision.desired, decision.raw, decision.reason) == (2, None, "NoServingPods")
    assert decision.limited_by == ("unknown",)


def test_what_is_unknown_takes_no_sleeping_pod_with_it(make, once):
    decision = once(make.fleet([make.unknown("a"), asleep(make, "b")]), **FREE)

    assert (decision.desired, decision.reason) == (2, "MetricsUnknown")


@pytest.mark.parametrize("told", [None, False])
def test_what_is_not_known_to_sleep_serves(make, once, told):
    load = PodLoad(usage=0.5, running=1.0, waiting=0.0, sleeping=told)

    assert once(make.fleet([make.pod("a", load=load)])).serving == 1


def test_the_warm_pool_is_of_pods_that_are_awake(make, once):
    pods = [make.pod("a", kv=0.5, running=1.0), asleep(make, "b")]

    assert once(make.fleet(pods), warm_pool=1).desired == 3
    awake = [make.pod(name, kv=0.3, running=1.0, sidecar=True) for name in "ac"]
    decision = once(make.fleet([*awake, asleep(make, "b")]), warm_pool=1, **FREE)
    assert [one.pod for one in decision.victims] == ["b"]
