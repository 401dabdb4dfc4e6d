import pytest

from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies import keda
from cacheaware_sim.policies.keda import KedaPolicy, KedaSettings, Trigger, query_sum
from cacheaware_sim.policies.policy import Limits

TO_40 = Limits(1, 40)


@pytest.mark.parametrize(
    ("usages", "replicas"),
    [
        pytest.param([0.9, 0.9, 0.9, 0.9], 6, id="3.6 of 0.7 per pod: ceil(5.14)"),
        pytest.param([0.7, 0.7, 0.7, 0.7], 4, id="just the target"),
        pytest.param([0.75, 0.75, 0.75, 0.75], 4, id="1.07 is within the tolerance"),
        pytest.param([0.1, 0.1, 0.1, 0.1], 4, id="a shrink waits for its window"),
        pytest.param([1.0, 1.0, 1.2, None], 5, id="a silent pod adds nothing: ceil(4.57)"),
        pytest.param([None, None, None, None], 4, id="silence is 0, which waits for its window"),
    ],
)
def test_the_sum_of_cache_use_asks_for(serving, usages, replicas):
    pods = tuple(
        serving(str(index), silent=usage is None, usage=usage) for index, usage in enumerate(usages)
    )
    policy = KedaPolicy("keda-kv", keda.KV, TO_40)

    assert policy.decide(Observation(0, 4, pods)).replicas == replicas


def test_a_query_sums_pods_that_terminate_too(serving, starting):
    pods = (
        serving("a", waiting=4),
        serving("b", waiting=9, terminating=True),
        serving("c", waiting=None),
        starting(),
    )

    assert query_sum(pods, "waiting") == 13


def test_starting_pods_are_pods_to_the_tolerance(fleet):
    policy = KedaPolicy("keda-waiting", keda.WAITING, TO_40)

    # 24 waiting over 12 pods is the target of 2
    assert policy.decide(fleet(0, 8, loading=4, waiting=3)).replicas == 12


def test_a_load_change_is_seen_at_the_next_poll_of_30_seconds(fleet, obey):
    policy = KedaPolicy("keda-waiting", keda.WAITING, TO_40)
    obey(policy, fleet(0, 8, waiting=2))

    assert obey(policy, fleet(15, 8, waiting=4)).replicas == 8
    assert obey(policy, fleet(30, 8, waiting=4)).replicas == 16


def test_without_the_cache_each_sync_reads_anew(fleet, obey):
    policy = KedaPolicy(
        "keda-kv", KedaSettings((Trigger("usage", 0.5),), use_cached_metrics=False), TO_40
    )
    obey(policy, fleet(0, 8, usage=0.5))

    assert obey(policy, fleet(15, 8, usage=0.75)).replicas == 12


def test_silence_of_the_whole_fleet_shrinks_it_to_the_minimum(fleet, obey):
    policy = KedaPolicy("keda-kv", keda.KV, TO_40)
    replicas = 8
    for now in range(0, 331, 15):
        replicas = obey(policy, fleet(now, replicas, usage=0.7, silent=now > 0)).replicas

    assert replicas == 1


def test_cache_use_alone_does_not_see_a_queue_and_both_do(fleet):
    queue = fleet(0, 8, usage=0.6, waiting=4)

    assert KedaPolicy("keda-kv", keda.KV, TO_40).decide(queue).replicas == 8
    assert KedaPolicy("keda-both", keda.BOTH, TO_40).decide(queue).replicas == 16


def test_of_two_triggers_the_larger_forbids_a_shrink(fleet, obey):
    policy = KedaPolicy("keda-both", keda.BOTH, TO_40)
    replicas = 8
    for now in range(0, 700, 15):
        replicas = obey(policy, fleet(now, replicas, usage=0.7, waiting=0)).replicas

    assert replicas == 8
