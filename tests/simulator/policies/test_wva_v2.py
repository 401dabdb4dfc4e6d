import pytest

from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies.policy import Limits
from cacheaware_sim.policies.wva import AT_ONCE
from cacheaware_sim.policies.wva_v2 import (
    DEFAULT,
    PodLoad,
    WvaV2Policy,
    WvaV2Settings,
    derived_capacity,
    output_bucket,
    pod_capacity,
    pod_demand,
    replicas_for,
)

TO_40 = Limits(1, 40)
EAGER = WvaV2Settings(loop_s=30, through=AT_ONCE)
IDLE = PodLoad(capacity_tokens=100_000, tokens_in_use=0, waiting=0, input_tokens=0, output_tokens=0)


def load(**fields):
    values = {
        "capacity_tokens": 100_000.0,
        "tokens_in_use": 40_000.0,
        "waiting": 0.0,
        "input_tokens": 1000.0,
        "output_tokens": 200.0,
    }
    return PodLoad(**{**values, **fields})


@pytest.mark.parametrize(
    ("pod", "remembered", "tokens"),
    [
        pytest.param(load(), None, 80_000, id="memory: 0.8 x 100,000; 256 x 1,100 is more"),
        pytest.param(load(waiting=5), None, 40_000, id="a full queue: what it holds now"),
        pytest.param(load(waiting=4), 50_000.0, 50_000, id="what it once held with a full queue"),
        pytest.param(load(waiting=5), 50_000.0, 40_000, id="now before once"),
        pytest.param(load(waiting=4), 90_000.0, 80_000, id="never more than memory"),
        pytest.param(
            load(waiting=5, tokens_in_use=0), 50_000.0, 50_000, id="an empty cache shows nothing"
        ),
        pytest.param(
            load(capacity_tokens=500_000, output_tokens=20),
            None,
            162_234,
            id="derived: 8192 x 20/1020 = 160.6 requests x 1,010",
        ),
        pytest.param(load(output_tokens=0), None, 80_000, id="no answers known: memory"),
    ],
)
def test_a_pod_can_hold(pod, remembered, tokens):
    assert pod_capacity(pod, remembered, DEFAULT) == pytest.approx(tokens, abs=1)


def test_sequences_limit_what_is_derived():
    assert derived_capacity(load(), DEFAULT) == 256 * 1100
    assert derived_capacity(IDLE, DEFAULT) is None


@pytest.mark.parametrize(
    ("pod", "settings", "tokens"),
    [
        pytest.param(load(), DEFAULT, 40_000, id="in use"),
        pytest.param(load(waiting=10), DEFAULT, 52_000, id="10 waiting of 1,000 + 200"),
        pytest.param(
            load(waiting=10),
            WvaV2Settings(queue_counts_output=False),
            50_000,
            id="10 waiting of 1,000, as before v0.9",
        ),
        pytest.param(
            load(waiting=10, input_tokens=0, output_tokens=0),
            DEFAULT,
            40_000,
            id="a queue of unknown lengths is not counted",
        ),
    ],
)
def test_a_pod_demands(pod, settings, tokens):
    assert pod_demand(pod, settings) == tokens


@pytest.mark.parametrize(
    ("demand", "ready", "pending", "replicas"),
    [
        pytest.param(68_000, 8, 0, 8, id="0.85 is just enough"),
        pytest.param(69_000, 8, 0, 9, id="81,176 of 80,000"),
        pytest.param(69_000, 7, 1, 8 + 1, id="pending pods are supply: the same"),
        pytest.param(69_000, 8, 1, 9, id="81,176 of 90,000 with the pending one"),
        pytest.param(170_000, 8, 0, 20, id="200,000: twelve more"),
        pytest.param(56_000, 8, 0, 8, id="0.70 is just what stays"),
        pytest.param(48_900, 8, 0, 7, id="69,857: one over"),
        pytest.param(28_000, 8, 4, 8, id="40,000 of 8 ready: four over of 12"),
        pytest.param(0, 8, 0, 1, id="nothing: one stays"),
        pytest.param(0, 0, 1, 1, id="one that starts stays"),
    ],
)
def test_a_capacity_of_10000_a_pod_asks_for(demand, ready, pending, replicas):
    assert replicas_for(demand, 10_000, ready, pending, DEFAULT) == replicas


def test_without_a_capacity_nothing_changes():
    assert replicas_for(10_000, 0, 8, 1, DEFAULT) == 9


@pytest.mark.parametrize(
    ("tokens", "bucket"),
    [(0, "short"), (99.9, "short"), (100, "medium"), (499, "medium"), (500, "long")],
)
def test_capacities_are_remembered_by_the_length_of_answers(tokens, bucket):
    assert output_bucket(tokens) == bucket


def test_a_full_cache_grows_the_fleet_at_once(fleet, obey):
    policy = WvaV2Policy(DEFAULT, TO_40)

    # 8 x 95,000 / 0.85 = 894,118 of 80,000 each
    assert obey(policy, fleet(0, 8, usage=0.95)).replicas == 12


def test_pods_that_start_are_not_ordered_again(fleet, obey):
    policy = WvaV2Policy(EAGER, TO_40)
    obey(policy, fleet(0, 8, usage=0.95))

    assert obey(policy, fleet(30, 8, loading=4, usage=0.95)).replicas == 12


def test_kubernetes_default_window_delays_the_shrink(fleet, obey):
    policy = WvaV2Policy(DEFAULT, TO_40)
    history = {now: obey(policy, fleet(now, 8, usage=0.1)).replicas for now in range(0, 301, 5)}

    # spare 640,000 - 114,286 = six pods of 80,000
    assert history[285] == 8
    assert history[300] == 2


def test_tuned_the_shrink_is_at_once(fleet, obey):
    policy = WvaV2Policy(EAGER, TO_40)

    assert obey(policy, fleet(0, 8, usage=0.1)).replicas == 2


def test_a_queue_counts_by_the_lengths_of_the_last_five_minutes(serving, obey):
    policy = WvaV2Policy(EAGER, TO_40)
    first = serving("a", at=0, usage=0.5)
    obey(policy, Observation(0, 1, (first,)))
    # 100 requests of 2,000 + 400 tokens ended, 3 wait: 57,200 tokens are under 0.85 x 80,000
    later = serving(
        "a", at=30, usage=0.5, waiting=3, requests=100, prompt_tokens=2e5, generation_tokens=4e4
    )
    assert obey(policy, Observation(30, 1, (later,))).replicas == 1
    # 8 wait: 69,200 / 0.85 = 81,412, and a full queue says 50,000 is all that it holds
    queue = serving(
        "a", at=60, usage=0.5, waiting=8, requests=100, prompt_tokens=2e5, generation_tokens=4e4
    )
    assert obey(policy, Observation(60, 1, (queue,))).replicas == 2


def test_what_a_full_queue_showed_is_remembered(serving, obey):
    policy = WvaV2Policy(EAGER, TO_40)
    obey(policy, Observation(0, 1, (serving("a", at=0, usage=0.3, waiting=6),)))

    # once seen full at 30,000: 27,000 / 0.85 = 31,765
    assert obey(policy, Observation(90, 1, (serving("a", at=90, usage=0.27),))).replicas == 2


def test_the_median_pod_is_what_a_pod_can_hold(serving, obey):
    policy = WvaV2Policy(EAGER, TO_40)
    pods = (
        serving("a", usage=0.1, waiting=6),
        serving("b", usage=0.9),
        serving("c", usage=0.9),
    )

    # capacities 10,000, then 10,000 remembered for all: 190,000 / 0.85 of 10,000 each
    assert obey(policy, Observation(0, 3, pods)).replicas == 13
    assert obey(policy, Observation(30, 13, pods)).replicas == 23


def test_silence_changes_nothing(fleet, obey):
    policy = WvaV2Policy(EAGER, TO_40)
    obey(policy, fleet(0, 8, usage=0.6))
    for now in range(5, 600, 5):
        assert obey(policy, fleet(now, 8, silent=True)).replicas == 8


def test_the_limits_hold(fleet, obey):
    assert obey(WvaV2Policy(EAGER, Limits(6, 10)), fleet(0, 8, usage=1.0)).replicas == 10
    assert obey(WvaV2Policy(EAGER, Limits(6, 10)), fleet(0, 8, usage=0.0)).replicas == 6
