"""How requests find a pod."""

from collections import Counter

import pytest

from cacheaware_sim.fleet.pod import new_pod
from cacheaware_sim.fleet.routing import MATCHED, ROUTERS, TOLERATED, PrefixAware, least_queue
from cacheaware_sim.fleet.sent import Sent
from cacheaware_sim.traces.trace import TraceRequest


@pytest.fixture
def pods(engine):
    return [new_pod(n, engine, 0.0, 0.0) for n in range(4)]


def sent(*names):
    return Sent(1, TraceRequest(0.0, 100, 1, prefix=names or None))


def test_the_least_loaded_pod_is_chosen_and_the_first_of_several(pods):
    for pod, outstanding in zip(pods, (3, 1, 2, 1), strict=True):
        pod.outstanding = outstanding

    assert least_queue(pods, sent()) is pods[1]


def test_round_robin_takes_one_after_the_other_from_the_first_on(pods):
    router = ROUTERS["round-robin"](0)

    assert [pods.index(router(pods, sent())) for _ in range(6)] == [0, 1, 2, 3, 0, 1]


def test_random_takes_all_alike_and_the_same_again_by_seed(pods):
    def chosen(seed):
        router = ROUTERS["random"](seed)
        return [pods.index(router(pods, sent())) for _ in range(400)]

    assert chosen(1) == chosen(1) != chosen(2)
    assert all(70 < count < 130 for count in Counter(chosen(3)).values())


def test_a_prefix_goes_where_it_went_before(pods):
    router = ROUTERS["prefix-aware"](0)
    pods[0].outstanding = 1
    assert router(pods, sent(1, 2, 3)) is pods[1]
    pods[1].outstanding = TOLERATED

    assert router(pods, sent(1, 2, 3, 4)) is pods[1]


def test_the_longest_prefix_counts(pods):
    router = ROUTERS["prefix-aware"](0)
    router(pods[2:3], sent(1, 2, 3))
    router(pods[3:4], sent(1, 2, 9))

    assert router(pods, sent(1, 2, 9, 10)) is pods[3]


def test_a_beginning_that_all_share_draws_nobody(pods):
    router = ROUTERS["prefix-aware"](0)
    router(pods[2:3], sent(1, 2, 3, 4, 5))

    assert router(pods, sent(1, 2, 13, 14, 15)) is pods[0]
    assert router(pods, sent(1, 2, 3, 14, 15)) is pods[2]


def test_a_pod_that_is_much_busier_loses_its_prefix(pods):
    router = ROUTERS["prefix-aware"](0)
    router(pods[2:3], sent(1, 2, 3))
    pods[2].outstanding = TOLERATED + 1

    assert router(pods, sent(1, 2, 3)) is pods[0]


def test_requests_without_a_prefix_go_to_the_least_loaded(pods):
    pods[0].outstanding = 1

    assert ROUTERS["prefix-aware"](0)(pods, sent()) is pods[1]


def test_what_is_remembered_is_bounded_and_the_oldest_is_forgotten(pods):
    router = PrefixAware(remembered=4)
    one = pods[:1]
    router(one, sent(1, 2, 3))
    router(one, sent(4, 5))

    assert list(pods[0].prefixes) == [2, 1, 5, 4]
    router(one, sent(1))
    router(one, sent(6))
    assert list(pods[0].prefixes) == [5, 4, 1, 6]


def test_a_long_prompt_is_remembered_by_its_beginning(pods):
    ROUTERS["prefix-aware"](0)(pods, sent(*range(1, 5 * MATCHED)))

    assert sorted(pods[0].prefixes) == list(range(1, MATCHED + 1))
