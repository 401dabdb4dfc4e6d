import pytest

from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies.hpa import (
    GPU,
    WAITING,
    HpaPolicy,
    gpu_percent,
    pod_metric,
    waiting_requests,
)
from cacheaware_sim.policies.hpa_metrics import PodMetric
from cacheaware_sim.policies.policy import Limits

TO_40 = Limits(1, 40)


@pytest.fixture
def hpa_waiting():
    return HpaPolicy("hpa-waiting", waiting_requests, WAITING, TO_40)


@pytest.fixture
def hpa_gpu():
    return HpaPolicy("hpa-gpu", gpu_percent, GPU, TO_40)


def test_the_gpu_is_busy_while_the_engine_runs_anything_and_idle_while_it_loads(serving, starting):
    assert gpu_percent(serving(running=1)) == 100
    assert gpu_percent(serving(running=200, waiting=50)) == 100
    assert gpu_percent(serving(running=0, waiting=3)) == 0
    assert gpu_percent(starting()) == 0
    assert gpu_percent(serving(silent=True)) is None
    assert gpu_percent(serving(running=None)) is None


def test_pods_that_terminate_have_no_part_in_the_metric(serving, starting):
    pods = (serving("a", waiting=4), serving("b", waiting=9, terminating=True), starting())

    seen = Observation(0, 2, pods)
    assert pod_metric(seen, waiting_requests) == PodMetric((4.0,), missing=1)


def test_one_request_on_every_gpu_grows_to_the_maximum(hpa_gpu, fleet, obey):
    replicas = 8
    for now in range(0, 1800, 15):
        replicas = obey(hpa_gpu, fleet(now, replicas, running=1)).replicas

    assert replicas == 40


def test_gpu_utilisation_asks_for_a_quarter_more_of_busy_pods(hpa_gpu, fleet):
    assert hpa_gpu.decide(fleet(0, 8, running=1)).replicas == 10


def test_pods_that_load_hold_the_growth_back(hpa_gpu, fleet):
    assert hpa_gpu.decide(fleet(0, 8, loading=2, running=1)).replicas == 10


def test_waiting_requests_double_the_fleet_each_15_seconds(hpa_waiting, fleet, obey):
    assert obey(hpa_waiting, fleet(0, 8, waiting=20)).replicas == 16
    assert obey(hpa_waiting, fleet(15, 16, waiting=20)).replicas == 32
    assert obey(hpa_waiting, fleet(30, 32, waiting=20)).replicas == 40


def test_a_refused_write_does_not_count_against_the_rate(hpa_waiting, fleet):
    assert hpa_waiting.decide(fleet(0, 8, waiting=20)).replicas == 16
    assert hpa_waiting.decide(fleet(10, 8, waiting=20)).replicas == 16


def test_growth_counts_starting_pods_as_without_load(hpa_waiting, fleet):
    # 8 pods x 3 = 24 over 12 pods is just the target
    assert hpa_waiting.decide(fleet(0, 8, loading=4, waiting=3)).replicas == 12


def test_an_idle_fleet_shrinks_after_300_seconds_to_the_minimum(hpa_waiting, fleet, obey):
    replicas = {now: obey(hpa_waiting, fleet(now, 8)).replicas for now in range(0, 301, 15)}

    assert set(list(replicas.values())[:-1]) == {8}
    assert replicas[300] == 1


def test_one_burst_holds_a_shrink_for_300_seconds(hpa_waiting, fleet, obey):
    for now in range(0, 300, 15):
        obey(hpa_waiting, fleet(now, 8, waiting=2 if now == 150 else 0))

    assert obey(hpa_waiting, fleet(435, 8)).replicas == 8
    assert obey(hpa_waiting, fleet(450, 8)).replicas == 1


def test_a_silent_fleet_is_left_alone(hpa_waiting, fleet):
    for now in range(0, 900, 15):
        assert hpa_waiting.decide(fleet(now, 8, silent=True)).replicas == 8


def test_half_a_silent_fleet_shrinks_as_if_it_were_at_the_target(hpa_waiting, serving, obey):
    pods = [serving(f"a{n}") for n in range(4)] + [serving(f"b{n}", silent=True) for n in range(4)]
    orders = None
    for now in range(0, 301, 15):
        orders = obey(hpa_waiting, Observation(now, 8, tuple(pods)))

    assert orders is not None
    assert orders.replicas == 4


@pytest.mark.parametrize(("replicas", "bounded"), [(50, 40), (1, 2)])
def test_replicas_outside_of_the_limits_are_brought_back_at_once(fleet, replicas, bounded):
    policy = HpaPolicy("hpa-waiting", waiting_requests, WAITING, Limits(2, 40))

    assert policy.decide(fleet(0, replicas, waiting=2)).replicas == bounded
