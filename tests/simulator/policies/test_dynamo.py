import pytest

from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies.capacity import LatencyTargets, Lengths
from cacheaware_sim.policies.dynamo import (
    DEFAULT,
    DynamoPolicy,
    DynamoSettings,
    EngineLoad,
    engine_requests_per_s,
    threshold_step,
)
from cacheaware_sim.policies.policy import Limits

TO_40 = Limits(1, 40)
FORECASTING = DynamoSettings(enable_throughput_scaling=True)
TARGETS = LatencyTargets(ttft_s=1.0, tpot_s=0.1)


def engines(*utilizations):
    return [EngineLoad(each * 1e5, 0, 1e5) for each in utilizations]


@pytest.mark.parametrize(
    ("loads", "pods"),
    [
        pytest.param(engines(1.01, 0.1, 0.1), 1, id="any above 1"),
        pytest.param(engines(1.0, 0.1), 0, id="1 is not above 1"),
        pytest.param([EngineLoad(9e4, 2e4, 1e5)], 1, id="the queue's prompts count as cache"),
        pytest.param(engines(0.59, 0.59), -1, id="all below 0.6"),
        pytest.param(engines(0.6, 0.1), 0, id="0.6 is not below"),
        pytest.param(engines(0.1), 0, id="the last stays"),
    ],
)
def test_the_thresholds_ask_for(loads, pods):
    assert threshold_step(loads, DEFAULT) == pods


@pytest.fixture
def planner(profile):
    return lambda settings, limits=TO_40: DynamoPolicy(settings, profile, TARGETS, limits)


def test_a_full_engine_adds_one_pod(planner, serving):
    pods = (serving("a", usage=0.9, waiting=4), serving("b", usage=0.2))

    # 90,000 + 4 x 3,000 of 100,000
    assert planner(DEFAULT).decide(Observation(0, 2, pods)).replicas == 3


def test_queued_prompts_are_as_long_as_those_that_were_seen(planner, serving):
    policy = planner(DEFAULT)
    policy.decide(Observation(0, 1, (serving("a", at=0, usage=0.7),)))
    seen = serving("a", at=5, usage=0.9, waiting=4, requests=10, prompt_tokens=20_000)
    assert policy.decide(Observation(5, 1, (seen,))).replicas == 1

    longer = serving("a", at=10, usage=0.9, waiting=6, requests=10, prompt_tokens=20_000)
    assert policy.decide(Observation(10, 1, (longer,))).replicas == 2


def test_an_idle_fleet_goes_one_by_one_to_the_last_pod(planner, fleet, obey):
    policy = planner(DEFAULT)
    replicas = 4
    history = []
    for now in range(0, 30, 5):
        replicas = obey(policy, fleet(now, replicas, usage=0.1)).replicas
        history.append(replicas)

    assert history == [3, 2, 1, 1, 1, 1]


def test_while_a_pod_starts_it_only_observes(planner, fleet):
    assert planner(DEFAULT).decide(fleet(0, 4, loading=1, usage=1.2)).replicas == 5


def test_an_engine_that_does_not_report_holds_everything(planner, serving):
    full, silent = serving("a", usage=1.5), serving("b", silent=True)
    untold = serving("b", usage=0.1, waiting=None)

    assert planner(DEFAULT).decide(Observation(0, 2, (full, silent))).replicas == 2
    assert planner(DEFAULT).decide(Observation(0, 2, (full, untold))).replicas == 2


def test_a_pod_that_terminates_is_no_worker(planner, serving):
    pods = (serving("a", usage=1.5), serving("b", terminating=True))

    assert planner(DEFAULT).decide(Observation(0, 1, pods)).replicas == 2


def test_the_limits_hold(planner, fleet):
    assert planner(DEFAULT, Limits(3, 4)).decide(fleet(0, 4, usage=1.5)).replicas == 4
    assert planner(DEFAULT, Limits(4, 8)).decide(fleet(0, 4, usage=0.0)).replicas == 4


@pytest.mark.parametrize(
    ("lengths", "hit_ratio", "targets", "rate"),
    [
        pytest.param(
            # B = 153 of 1,050 tokens fill 160,000; with 10 prompt tokens per answer token the
            # iteration is 10 + B (0.1 + 0.105 + 0.5) ms, 100 ms at B = 127
            Lengths(1000, 100),
            0.0,
            TARGETS,
            1000 * 127 / (100 * (10 + 127 * 0.705)),
            id="latency binds",
        ),
        pytest.param(
            Lengths(1000, 1000),
            0.0,
            TARGETS,
            1000 * 106 / (1000 * (10 + 106 * 0.3)),
            id="the cache binds: 106 of 1,500 tokens",
        ),
        pytest.param(
            Lengths(1000, 100),
            1.0,
            TARGETS,
            1000 * 152 / (100 * (10 + 152 * 0.205)),
            id="hits take the prefill away, and the cache binds",
        ),
        pytest.param(
            Lengths(30_000, 100),
            0.0,
            TARGETS,
            1000 / (100 * (10 + 0.1 + 3.005 + 15)),
            id="a prompt that takes 1.5 s breaks the target: one at a time",
        ),
    ],
)
def test_one_engine_keeps_its_targets_up_to(profile, lengths, hit_ratio, targets, rate):
    found = engine_requests_per_s(profile, lengths, hit_ratio, targets)

    assert found == pytest.approx(rate, rel=1e-6)


def test_the_forecast_is_a_lower_bound_of_the_fleet(planner, serving):
    policy = planner(FORECASTING)
    replicas = []
    for now in range(0, 725, 5):
        # 54 requests/s of 1,000 + 100 tokens over 4 pods; one engine keeps 12.8/s: 5 pods
        done = 13.5 * now
        pods = tuple(
            serving(
                f"pod-{index}",
                at=now,
                usage=0.5,
                requests=done,
                prompt_tokens=1000 * done,
                generation_tokens=100 * done,
            )
            for index in range(4)
        )
        replicas.append(policy.decide(Observation(now, 4, pods)).replicas)

    assert set(replicas[:36]) == {3}
    assert replicas[-1] == 5


def test_without_traffic_the_forecast_asks_for_nothing(planner, fleet):
    policy = planner(FORECASTING)
    for now in range(0, 400, 5):
        replicas = policy.decide(fleet(now, 2, usage=0.7)).replicas

    assert replicas == 2
