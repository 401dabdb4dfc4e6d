"""A gauge that is full of what no request needs is no reason to grow."""

import pytest
from msgspec.structs import replace

from cacheaware.decide.fleet import PodLoad
from cacheaware.decide.policy import Policy, RatePolicy, Rules

FAST = Rules(stabilization_seconds=0, policies=(RatePolicy("Percent", 100, 15),))
FREE = {"scale_down": FAST, "drain_share_percent": 100}
LONG = 300.0


def full(make, name, retained_s=LONG, **numbers):
    load = PodLoad(**{"usage": 1.0, "running": 2.0, "waiting": 0.0, **numbers})
    return make.pod(name, load=load, retained_s=retained_s)


def sized(make, name, retained_s=LONG, **numbers):
    known = {"capacity_tokens": 100_000.0, "tokens_per_request": 1000.0, **numbers}
    return full(make, name, retained_s, **known)


def test_a_fleet_whose_caches_stay_full_does_not_grow_for_ever(make, rounds):
    """Pods take a minute to start and two to fill, and keep what they have cached."""
    life, born = rounds(Policy(mode="Scale", max_replicas=50), replicas=4), [-200.0] * 4

    for second in range(0, 3600, 15):
        pods = [aged(make, f"p{i:02}", second - at) for i, at in enumerate(born)]
        decision = life.round(make.fleet(pods), after=15)
        born += [float(second)] * (decision.desired - len(born))

    assert len(born) < 12
    assert max(born) < 600


def test_without_the_five_minutes_it_would(make, rounds):
    life, born = rounds(Policy(mode="Scale", max_replicas=50), replicas=4), [-200.0] * 4

    for second in range(0, 3600, 15):
        pods = [aged(make, f"p{i:02}", second - at) for i, at in enumerate(born)]
        pods = [replace(one, retained_s=0.0) for one in pods]
        decision = life.round(make.fleet(pods), after=15)
        born += [float(second)] * (decision.desired - len(born))

    assert len(born) == 50


def aged(make, name, seconds):
    """A pod so long after its order."""
    if seconds < 60:
        return make.booting(name, age_s=seconds)
    if seconds < 180:
        return make.pod(name, kv=(seconds - 60) / 120, running=2.0)
    return full(make, name, seconds - 180)


@pytest.mark.parametrize("wishes", [{"warm_pool": 1}, {"headroom_percent": 50}])
def test_wishes_on_top_don_t_feed_on_such_caches(make, rounds, wishes):
    life, replicas = rounds(Policy(mode="Scale", max_replicas=50, **wishes), replicas=3), 3

    for _ in range(200):
        pods = [full(make, f"p{i}") for i in range(replicas)]
        replicas = life.round(make.fleet(pods), after=15).desired

    assert replicas <= 4


def test_before_five_minutes_are_over_a_full_gauge_counts(make, once):
    pods = [full(make, name, LONG - 1) for name in "abcd"]

    assert once(make.fleet(pods)).raw == 5


def test_where_requests_tell_no_size_the_use_is_unknown_and_nothing_shrinks(make, once):
    decision = once(make.fleet([full(make, name) for name in "abcd"]), **FREE)

    assert (decision.desired, decision.reason) == (4, "MetricsUnknown")
    assert "4 pods keep caches that no request needs" in decision.message
    assert "no reason to grow" in decision.message


def test_where_they_do_the_cache_counts_as_twice_what_they_hold(make, once):
    decision = once(make.fleet([sized(make, name, running=10.0) for name in "abcd"]), **FREE)

    kv = decision.terms[0]
    assert (kv.signal, kv.demand) == ("kv-tokens", 4 * 10 * 1000 * 2)
    assert decision.raw == 1
    assert decision.message.startswith("KV holds 80,000 of 400,000 tokens on 4 pods (20 %)")


def test_requests_that_could_fill_the_cache_leave_the_gauge_as_it_is(make, once):
    decision = once(make.fleet([sized(make, name, running=90.0) for name in "abcd"]))

    assert (decision.terms[0].demand, decision.raw) == (400_000, 5)


def test_a_pod_without_a_request_holds_nothing_whatever_its_gauge_shows(make, once):
    empty = full(make, "b", usage=0.4, running=0.0)
    pods = [make.pod("a", kv=0.7, running=3.0), empty]

    decision = once(make.fleet(pods), **FREE)

    assert decision.terms[0].demand == 0.7
    assert "1 pod keeps a cache that no request needs" in decision.message


def test_pods_that_hand_over_may_hold_it_for_others(make, once):
    pods = [sized(make, name, running=0.0) for name in "ab"]

    decision = once(make.fleet(pods), role="Prefill", **FREE)

    assert (decision.desired, decision.reason) == (2, "MetricsUnknown")


def test_a_queue_makes_the_fleet_grow_as_always(make, once):
    pods = [full(make, name, waiting=12.0) for name in "ab"]

    assert once(make.fleet(pods)).raw == 5


def test_one_such_pod_leaves_the_others_as_they_are(make, once):
    pods = [make.pod("b", kv=0.95, running=9.0), make.pod("c", kv=0.95, running=9.0)]

    assert once(make.fleet([full(make, "a", 0.0), *pods])).desired == 4
    assert once(make.fleet([full(make, "a"), *pods])).desired == 3


@pytest.mark.parametrize("load", [None, PodLoad(running=2.0, waiting=0.0)])
def test_what_tells_no_use_has_none_to_explain(make, once, load):
    pods = [replace(full(make, "a"), load=load), full(make, "b")]

    assert once(make.fleet(pods)).desired == 2
