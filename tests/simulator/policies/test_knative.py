import pytest

from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies.knative import (
    DEFAULT,
    KpaPolicy,
    KpaSettings,
    Load,
    Panic,
    step,
    total_concurrency,
)
from cacheaware_sim.policies.policy import Limits

TO_40 = Limits(1, 40)
TEN = KpaSettings(target=10)


@pytest.mark.parametrize(
    ("load", "ready", "panic", "now", "desired", "after"),
    [
        pytest.param(Load(50, 50), 5, Panic(), 0, 5, Panic(), id="on target"),
        pytest.param(Load(51, 51), 5, Panic(), 0, 6, Panic(), id="one request more"),
        pytest.param(Load(10, 10), 8, Panic(), 0, 4, Panic(), id="at most half goes at once"),
        pytest.param(Load(0, 0), 0, Panic(), 0, 0, Panic(), id="no load and no pod"),
        pytest.param(Load(5000, 5000), 1, Panic(), 7, 500, Panic(7, 500), id="hundreds at once"),
        pytest.param(Load(20, 81), 5, Panic(), 7, 2, Panic(), id="9 of 5 pods is below 200 %"),
        pytest.param(Load(20, 91), 5, Panic(), 7, 10, Panic(7, 10), id="10 of 5 pods is panic"),
        pytest.param(Load(120, 100), 5, Panic(), 7, 12, Panic(7, 12), id="the larger in panic"),
        pytest.param(
            Load(20, 20), 10, Panic(7, 10), 30, 10, Panic(7, 10), id="in panic nothing goes"
        ),
        pytest.param(
            Load(20, 120), 6, Panic(7, 10), 30, 12, Panic(30, 12), id="still over: 60 s more"
        ),
        pytest.param(
            Load(20, 20), 10, Panic(7, 10), 67, 10, Panic(7, 10), id="60 s after is still panic"
        ),
        pytest.param(
            Load(20, 20), 10, Panic(7, 10), 68, 5, Panic(), id="panic ends after 60 s, then half"
        ),
    ],
)
def test_a_target_of_10_asks_for(load, ready, panic, *, now, desired, after):
    assert step(load, ready, panic, TEN, now) == (desired, after)


def test_the_default_target_is_70_requests_a_pod():
    assert DEFAULT.target == 70
    assert step(Load(140, 140), 2, Panic(), DEFAULT, 0) == (2, Panic())
    assert step(Load(141, 141), 2, Panic(), DEFAULT, 0) == (3, Panic())


def test_concurrency_is_what_runs_and_waits_of_those_that_answer_times_all(serving):
    pods = (
        serving("a", running=10, waiting=2),
        serving("b", running=6, waiting=0),
        serving("c", silent=True),
    )

    assert total_concurrency(pods) == 27


def test_too_few_answers_are_no_data(serving):
    answers, silent = serving("a", running=10), [serving(str(n), silent=True) for n in range(2)]

    assert total_concurrency((answers, silent[0])) == 20
    assert total_concurrency((answers, *silent)) is None
    assert total_concurrency(()) is None
    assert total_concurrency((serving("a", running=None),)) is None


def test_it_starts_in_panic_so_that_lost_history_takes_no_pod(fleet):
    policy = KpaPolicy(TEN, TO_40)
    replicas = [policy.decide(fleet(now, 8, running=1)).replicas for now in range(0, 63, 2)]

    assert set(replicas[:-1]) == {8}
    assert replicas[-1] == 4


def test_one_pod_starts_without_panic(fleet):
    policy = KpaPolicy(TEN, TO_40)

    assert policy.decide(fleet(0, 1, running=1)).replicas == 1
    assert policy.decide(fleet(2, 1, running=35)).replicas == 2


def test_a_burst_of_one_scrape_is_seen_by_the_panic_window(fleet):
    policy = KpaPolicy(TEN, TO_40)
    for now in range(0, 120, 2):
        policy.decide(fleet(now, 4, running=9))

    # mean(36, 36, 800) over 6 s
    assert policy.decide(fleet(120, 4, running=200)).replicas == 30


def test_silence_is_no_decision(fleet):
    policy = KpaPolicy(TEN, TO_40)

    assert policy.decide(fleet(0, 8, silent=True)).replicas == 8
    assert policy.decide(Observation(2, 8, ())).replicas == 8


def test_starting_pods_neither_answer_nor_count(fleet):
    policy = KpaPolicy(TEN, TO_40)
    policy.decide(fleet(0, 1, running=30))

    # 30 requests on 1 ready pod: 3 pods, whatever starts
    assert policy.decide(fleet(2, 1, loading=2, running=30)).replicas == 3


def test_a_scale_down_delay_keeps_the_most_of_its_window(fleet):
    policy = KpaPolicy(KpaSettings(target=10, scale_down_delay_s=30, stable_window_s=4), TO_40)
    policy.decide(fleet(0, 1, running=15))
    replicas = [policy.decide(fleet(now, 1, running=5)).replicas for now in range(2, 40, 2)]

    assert replicas[0] == 2
    assert replicas[-1] == 1


def test_the_limits_hold(fleet):
    policy = KpaPolicy(TEN, Limits(3, 6))

    assert policy.decide(fleet(0, 1, running=0)).replicas == 3
    assert policy.decide(fleet(2, 1, running=900)).replicas == 6
