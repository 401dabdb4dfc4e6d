"""Case 061: requests of a warm-up are no load, from the engine's page to the decision."""

import json
import math
from dataclasses import replace

import pytest

from cacheaware.decide.policy import Policy
from cacheaware.observe.sidecar import loaded
from cacheaware_sidecar.engines import EngineSample, Histogram
from cacheaware_sidecar.lifecycle import Healthy, Lifecycle, Verdict
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.pod import Pod
from cacheaware_sidecar.settings import Settings
from cacheaware_sidecar.state_json import pod_state_from_json, pod_state_to_json
from cacheaware_sidecar.warmup import Result
from cacheaware_sidecar.warmup_progress import restore

BASELINE = Policy(mode="Scale", max_replicas=10, round_seconds=15)
BUSY = EngineSample(
    engine="vllm",
    running=24.0,
    waiting=40.0,
    usage=0.9,
    requests=60.0,
    prompt_tokens=8_000.0,
    prefix_queries=8_000.0,
    prefix_hits=4_000.0,
    ttft=Histogram(60.0, 30.0, ((0.5, 50.0), (math.inf, 60.0))),
)


@pytest.fixture
def pod(tmp_path):
    """A pod in its warm-up."""
    pod = Pod(Settings(shared_dir=str(tmp_path)), Lifecycle(since=0.0), boot="b")
    pod.scraped(EngineSample(engine="vllm", running=0.0, waiting=0.0, requests=0.0), 1.0)
    pod.apply(Healthy(), 2.0)
    pod.scraped(BUSY, 3.0)
    return pod


def told(pod, now):
    """What the operator reads."""
    return pod_state_from_json(json.loads(json.dumps(pod_state_to_json(pod.pod_state(now)))))


def test_061_a_fleet_does_not_grow_because_of_a_warmup(make, rounds, case, pod):
    given, expected = case("061", "input.state.json"), case("061", "expect.json")["replicas"]
    a, b, c = given["pods"]
    state = told(pod, 3.5)
    assert (state.phase, state.waiting, state.running) == (c["phase"], c["waiting"], c["running"])
    load = loaded(state)
    serving = [make.pod(each["name"], kv=each["kv"], running=1.0) for each in (a, b)]
    fleet = make.fleet(
        [*serving, make.pod("c", phase=Phase(state.phase), ready=False, age_s=60.0, load=load)]
    )
    life = rounds(BASELINE, replicas=given["specReplicas"])

    for _ in range(10):
        assert life.round(fleet, after=15).desired == expected == 3

    as_load = [*serving, make.pod("c", load=load)]
    fooled = rounds(BASELINE, replicas=3).round(make.fleet(as_load))
    assert fooled.raw == 8, "what an autoscaler would order that takes it for load"


def test_061_what_the_warmup_counted_is_in_no_baseline_of_the_pod(pod):
    pod.scraped(replace(BUSY, running=0.0, waiting=0.0), 3.0)
    pod.warmed(1, Result(verdict=Verdict.WARM, requests=60, prompt_tokens=8_000), 1.0, 4.0)
    user = {
        "running": 0.0,
        "waiting": 0.0,
        "requests": 61.0,
        "prompt_tokens": 8_100.0,
        "prefix_queries": 8_100.0,
        "prefix_hits": 4_000.0,
        "ttft": Histogram(61.0, 30.4, ((0.5, 51.0), (math.inf, 61.0))),
    }
    pod.scraped(EngineSample(engine="vllm", usage=0.0, **user), 13.0)
    state = told(pod, 13.0)

    assert state.phase == "serving"
    assert state.rates.requests_per_s == pytest.approx(1 / 10)
    assert state.rates.prompt_tokens_per_request == 100
    assert state.rates.prefix_hit_ratio == 0
    assert (state.latency.ttft_s.count, state.latency.ttft_s.sum) == (1, pytest.approx(0.4))
    assert (state.warmup.requests, state.warmup.prompt_tokens) == (60, 8_000)


@pytest.mark.parametrize("counts", [True, False], ids=["requests counted", "not counted"])
def test_061_a_page_from_before_the_end_of_the_warmup_is_no_baseline(pod, tmp_path, counts):
    """The sidecar looks each second: of the last prompt its newest page knows nothing yet."""
    early, over = (59.0, 60.0) if counts else (None, None)
    pod.scraped(replace(BUSY, requests=early, prompt_tokens=3_900.0), 3.0)
    pod.warmed(1, Result(verdict=Verdict.WARM, requests=60, prompt_tokens=8_000), 1.0, 3.5)
    state = told(pod, 3.6)
    assert (state.phase, state.rates.prompt_tokens_per_s) == ("serving", None)

    stall = Histogram(61.0, 38.0, ((0.5, 50.0), (math.inf, 61.0)))
    for second in (4.0, 10.0):
        page = replace(BUSY, requests=over, prompt_tokens=8_000.0, ttft=stall)
        pod.scraped(page, second)
    state = told(pod, 10.0)
    assert state.rates.prompt_tokens_per_s == 0.0
    assert state.latency.ttft_s.count == 0.0, "the stall of a first prompt was nobody's"
    assert restore(tmp_path, "b", 1)[1].ttft_s == stall, "nor is it after a restart of the sidecar"
