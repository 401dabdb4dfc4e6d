"""A cache that was lost while its pod went on is worth nothing, and spares no prefill."""

import pytest

from cacheaware.decide.fleet import PodLoad
from cacheaware.decide.learned import Learned
from cacheaware.decide.policy import RatePolicy, Rules

FAST = Rules(stabilization_seconds=0, policies=(RatePolicy("Pods", 1, 15),))


def cached(make, name, emptied_s=None, **numbers):
    load = PodLoad(
        **{
            "usage": 0.1,
            "running": 1.0,
            "waiting": 0.0,
            "prompt_tokens_per_s": 100.0,
            "prefix_hit_ratio": 0.8,
            **numbers,
        }
    )
    why = "its engine woke from sleep" if emptied_s is not None else ""
    return make.pod(name, load=load, sidecar=True, emptied_s=emptied_s, emptied_by=why)


def first_to_go(decision):
    return [one.pod for one in decision.cordons]


@pytest.mark.parametrize(("emptied_s", "goes"), [(None, "a"), (10.0, "b"), (61.0, "a")])
def test_the_pod_whose_cache_was_lost_goes_first(make, once, emptied_s, goes):
    pods = [cached(make, "a", prefix_hit_ratio=0.5), cached(make, "b", emptied_s)]

    assert first_to_go(once(make.fleet(pods), scale_down=FAST)) == [goes]


def test_an_empty_cache_is_known_to_be_where_no_hits_are_told(make, once):
    pods = [
        cached(make, "a", 1.0, prefix_hit_ratio=None),
        cached(make, "b", prefix_hit_ratio=0.1),
    ]

    assert first_to_go(once(make.fleet(pods), scale_down=FAST)) == ["a"]


def test_a_request_that_waits_for_it_counts_whole(make, once):
    numbers = {
        "capacity_tokens": 100_000.0,
        "waiting": 4.0,
        "tokens_per_request": 1000.0,
        "usage": 0.0,
    }

    warm = once(make.fleet([cached(make, "a", **numbers)]))
    cold = once(make.fleet([cached(make, "a", 5.0, **numbers)]))

    assert (warm.terms[0].demand, cold.terms[0].demand) == (pytest.approx(800), 4000)


def test_the_prefill_that_comes_to_it_counts_whole(make, rounds):
    found = {}
    for emptied_s in (None, 5.0):
        life = rounds(replicas=1)
        pod = cached(make, "a", emptied_s, prompt_tokens_per_s=1000.0)
        for _ in range(3):
            view = make.fleet([pod], learned=Learned(prefill_tokens_per_s=1000.0))
            decision = life.round(view, after=5)
        found[emptied_s] = decision.inputs["need"]

    assert found[5.0] == pytest.approx(5 * found[None])


def test_it_is_told_while_it_matters_and_names_a_pod(make, once):
    lost = [cached(make, name, 12.0) for name in "ab"]

    told = once(make.fleet([*lost, cached(make, "c", 100.0)])).message

    assert (
        "the cache of a was lost 12 s ago (its engine woke from sleep), and of 1 more:"
        " prompts there count whole" in told
    )
    assert "lost" not in once(make.fleet([cached(make, "c", 100.0)])).message
    alone = once(make.fleet([cached(make, "a", 12.0)])).message
    assert "(its engine woke from sleep): prompts there count whole" in alone


def test_a_pod_that_tells_nothing_is_left_as_it_is(make, once):
    pods = [make.unknown("a", emptied_s=5.0), cached(make, "b")]

    assert once(make.fleet(pods)).desired == 2
