import math
import shutil
from dataclasses import replace

import pytest
from tests.sidecar.kv.configs import LLAMA_31_8B

from cacheaware_sidecar.engines import EngineSample, Histogram, scan
from cacheaware_sidecar.lifecycle import (
    Cordoned,
    Healthy,
    Lifecycle,
    Refused,
    Unhealthy,
    Verdict,
    WarmupEnded,
)
from cacheaware_sidecar.pod import RESTART_NOTED_S, Pod
from cacheaware_sidecar.settings import Settings
from cacheaware_sidecar.state import PodState
from cacheaware_sidecar.state_json import pod_state_to_json
from cacheaware_sidecar.warmup import Result

SAMPLE = EngineSample(
    engine="vllm",
    running=2.0,
    waiting=1.0,
    usage=0.5,
    capacity_tokens=1600.0,
    num_blocks=100,
    block_size=16,
    prompt_tokens=0.0,
    started_at=100.0,
)


@pytest.fixture
def new_pod(tmp_path):
    def make(**settings):
        settings = Settings(shared_dir=str(tmp_path), **settings)
        return Pod(settings, Lifecycle(since=0.0), boot="b")

    return make


@pytest.fixture
def pod(new_pod):
    """A pod that serves since second 3."""
    pod = new_pod()
    pod.scraped(SAMPLE, 1.0)
    pod.apply(Healthy(), 2.0)
    pod.warmed(1, Result(verdict=Verdict.WARM), 1.0, 3.0)
    return pod


def test_a_pod_that_knows_nothing_tells_nothing(new_pod):
    state = new_pod().pod_state(1.0)

    assert state == PodState(phase="loading", phase_age_s=1.0)


def test_what_a_serving_pod_tells(pod):
    pod.scraped(SAMPLE, 10.0)
    state = pod_state_to_json(pod.pod_state(10.5))

    assert (state["phase"], state["phase_age_s"], state["sample_age_s"]) == ("serving", 7.5, 0.5)
    assert (state["sample_seq"], state["running"], state["waiting"]) == (2, 2, 1)
    assert state["warmup"]["verdict"] == "Warm"
    assert set(state["drain"].values()) == {None}


def test_an_engine_that_sleeps_goes_on_serving_and_that_is_told(pod):
    """Who has put it to sleep may wake it at any moment: observation never unserves."""
    pod.scraped(replace(SAMPLE, sleeping=True), 10.0)
    state = pod.pod_state(10.5)

    assert (state.phase, state.sleeping) == ("serving", True)
    assert "the engine sleeps: it serves nothing" in state.problems


def test_rates_are_of_the_last_minute_and_leave_the_warmup_out(pod):
    for second in range(4, 200):
        pod.scraped(replace(SAMPLE, prompt_tokens=1000.0 + 10 * second), float(second))

    assert pod.pod_state(199.5).rates.prompt_tokens_per_s == pytest.approx(10.0)
    assert pod.pod_state(199.5).rates.requests_per_s is None
    assert len(pod.observed._window) <= 14


def test_after_a_reset_of_its_prefix_cache_a_pod_tells_other_hits_within_a_minute(pod):
    """`/reset_prefix_cache` shows on no page but in the hits that fail to come."""
    queries = hits = 0.0
    for second in range(4, 165):
        queries, hits = queries + 100.0, hits + (80.0 if second <= 100 else 0.0)
        pod.scraped(replace(SAMPLE, prefix_queries=queries, prefix_hits=hits), float(second))
        if second == 100:
            assert pod.pod_state(100.0).rates.prefix_hit_ratio == pytest.approx(0.8)

    assert pod.pod_state(164.0).rates.prefix_hit_ratio < 0.05


BUCKETS = ((0.1, 3.0), (math.inf, 8.0))


def test_histograms_begin_when_the_pod_begins_to_serve(new_pod):
    """Case 061: what the warm-up added is not a user's."""
    pod = new_pod()
    own = replace(SAMPLE, ttft=Histogram(8.0, 4.0, BUCKETS), e2e=Histogram(8.0, 9.0, BUCKETS))
    pod.scraped(SAMPLE, 1.0)
    pod.apply(Healthy(), 2.0)
    pod.scraped(own, 2.5)
    assert pod.pod_state(2.5).latency.ttft_s == Histogram(0.0, 0.0, ((0.1, 0.0), (math.inf, 0.0)))
    pod.warmed(1, Result(verdict=Verdict.WARM), 1.0, 3.0)

    pod.scraped(
        replace(own, ttft=Histogram(9.0, 4.5, ((0.1, 3.0), (math.inf, 9.0)))),
        4.0,
    )
    latency = pod.pod_state(4.0).latency
    assert latency.ttft_s == Histogram(1.0, 0.5, ((0.1, 0.0), (math.inf, 1.0)))
    assert latency.e2e_s.count == 0
    assert latency.tpot_s is None


def test_histograms_of_a_new_engine_are_its_own(pod):
    pod.scraped(replace(SAMPLE, ttft=Histogram(8.0, 4.0, BUCKETS)), 4.0)
    assert pod.pod_state(4.0).latency.ttft_s.count == 8, "none before it served"
    new = replace(SAMPLE, ttft=Histogram(8.0, 4.0, BUCKETS), started_at=200.0)
    pod.scraped(new, 5.0)

    assert pod.phase == "loading"
    assert pod.pod_state(5.0).latency.ttft_s.count == 0


def test_a_restarted_sidecar_knows_where_the_histograms_began_and_how_the_start_was(
    new_pod, tmp_path
):
    pod = new_pod()
    own = replace(SAMPLE, ttft=Histogram(8.0, 4.0, BUCKETS))
    pod.scraped(own, 1.0)
    pod.apply(Healthy(), 2.0)
    pod.warmed(1, Result(verdict=Verdict.WARM, requests=8), 1.0, 3.5)
    again = Pod(pod.settings, pod.state, boot="b")
    again.scraped(replace(own, ttft=Histogram(9.0, 5.0, ((0.1, 4.0), (math.inf, 9.0)))), 9.0)
    state = again.pod_state(9.0)

    assert state.latency.ttft_s == Histogram(1.0, 1.0, ((0.1, 1.0), (math.inf, 1.0)))
    assert (state.start.loading_s, state.start.warming_s) == (2.0, 1.5)
    assert (state.warmup.requests, state.warmup.duration_s) == (8, 1.0)


def test_without_that_memory_histograms_begin_with_the_first_page(pod, tmp_path):
    (tmp_path / "warmup.json").unlink()
    again = Pod(pod.settings, pod.state, boot="b")
    own = replace(SAMPLE, ttft=Histogram(8.0, 4.0, BUCKETS))
    again.scraped(own, 9.0)
    assert again.pod_state(9.0).latency.ttft_s.count == 0
    again.scraped(replace(own, ttft=Histogram(9.0, 5.0, ((0.1, 4.0), (math.inf, 9.0)))), 10.0)

    assert again.pod_state(10.0).latency.ttft_s.count == 1
    assert again.pod_state(10.0).start.loading_s is None


def test_a_warmup_that_can_not_be_saved_is_said_and_stops_nothing(new_pod, caplog, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    pod = new_pod()
    monkeypatch.setattr(pod.warmup, "save", refuse)
    pod.apply(Healthy(), 2.0)

    assert pod.phase == "warming"
    assert "the warm-up can't be saved: Permission denied" in caplog.text


def test_rates_of_long_ago_are_unknown(pod):
    pod.scraped(SAMPLE, 4.0)
    pod.scraped(replace(SAMPLE, prompt_tokens=10.0), 5.0)

    assert pod.pod_state(6.0).rates.prompt_tokens_per_s == 10.0 / 4, "since second 1"
    assert pod.pod_state(66.0).rates.prompt_tokens_per_s is None


def test_a_failed_look_leaves_the_sample_to_age(pod):
    pod.scraped(SAMPLE, 4.0)
    pod.scrape_failed("timed_out", "no whole answer in 5 s", 9.0)
    state = pod.pod_state(10.0)

    assert (state.sample_age_s, state.running) == (6.0, 2.0)
    assert state.problems == ("metrics page: no whole answer in 5 s",)
    assert not pod.view(10.0).fresh
    pod.scraped(SAMPLE, 11.0)
    assert pod.pod_state(11.0).problems == ()


def test_a_page_without_an_engines_names_is_no_sample(pod):
    pod.scraped(EngineSample(problems=("unsupported engine",)), 4.0)
    pod.scraped(EngineSample(), 5.0)

    assert pod.observed.count == 1
    assert pod.observed.errors == {"unsupported": 2}
    assert pod.phase == "serving"


@pytest.mark.parametrize("event", [Refused(), Unhealthy()])
def test_what_a_dead_engine_said_is_void(pod, event):
    for second in (4.0, 5.0, 6.0):
        pod.apply(event, second)
    state = pod.pod_state(7.0)

    assert (state.phase, state.running, state.sample_age_s) == ("loading", None, None)
    assert "the engine died or was replaced within the last 10 minutes" in state.problems
    assert "the engine" not in " ".join(pod.problems(6.0 + RESTART_NOTED_S))


def test_the_field_case_of_an_engine_that_restarted(new_pod, case):
    """Case 068: no negative rates, the restart is noted, and the pod is cold again."""
    pod = new_pod()
    before, after = (scan(case("068", f"input.{name}.prom").encode()) for name in ("t0", "t60"))
    pod.scraped(before, 1.0)
    pod.apply(Healthy(), 1.0)
    pod.warmed(1, Result(verdict=Verdict.WARM), 1.0, 2.0)
    pod.scraped(before, 3.0)
    pod.scraped(after, 63.0)
    state = pod.pod_state(63.0)

    assert state.phase == "loading"
    assert state.rates.preemptions_per_s is None
    assert state.rates.prefix_hit_ratio is None
    assert any("replaced" in problem for problem in state.problems)
    assert pod.view(63.0).engine_restarts == 1


def test_a_refusal_while_loading_is_the_status_and_no_problem(new_pod):
    pod = new_pod()
    pod.scrape_failed("refused", "connection refused", 1.0)

    assert pod.problems(2.0) == ()
    assert pod.status_line(2.0) == "loading for 2 s: connection refused"


def test_the_warmups_problems_stay_until_another_engine_comes(pod, new_pod):
    pod = new_pod()
    pod.apply(Healthy(), 1.0)
    pod.warmed(1, Result(verdict=Verdict.READY, problems=("too slow",)), 1.0, 2.0)
    assert pod.problems(3.0) == ("too slow",)
    for second in (4.0, 5.0, 6.0):
        pod.apply(Refused(), second)
    assert "too slow" not in pod.problems(7.0)


def test_the_warmup_of_an_engine_that_is_gone_changes_nothing(pod):
    pod.warmed(7, Result(verdict=Verdict.FAILED, problems=("x",)), 9.0, 5.0)

    assert pod.pod_state(6.0).warmup.duration_s == 1.0
    assert pod.problems(6.0) == ()


def test_a_drain_ends_when_the_pages_have_been_empty(pod):
    pod.begin_drain(10.0)
    state = pod.pod_state(11.0)
    assert (state.phase, state.drain.deadline_s, state.drain.running) == ("draining", 24.0, 2.0)

    for second in range(12, 20):
        pod.scraped(replace(SAMPLE, running=0.0, waiting=0.0), float(second))
        pod.tick(float(second))
    assert pod.phase == "drained"
    assert (pod.drain_s, pod.drain_cut) == (7.0, 0.0)


def test_a_drain_that_is_cut_is_told_with_what_was_left(pod, caplog):
    pod.begin_drain(10.0)
    pod.scraped(SAMPLE, 34.0)
    pod.tick(35.0)
    pod.tick(36.0)

    assert (pod.phase, pod.drain_cut) == ("draining", 3.0)
    assert "the drain's deadline came before the pod was empty" in pod.problems(36.0)
    assert caplog.text.count("2 running, 1 waiting") == 1


def test_a_drain_that_is_cut_while_nothing_is_known_counts_nothing(new_pod):
    pod = new_pod()
    pod.begin_drain(10.0)
    pod.tick(35.0)

    assert pod.drain_cut is None
    assert pod.observed.load_line() == "requests unknown"


@pytest.mark.parametrize(
    ("prepare", "line"),
    [
        (lambda pod: None, "serving for 1 s"),
        (lambda pod: pod.apply(Cordoned("op"), 4.0), "cordoned for 0 s by op"),
        (lambda pod: pod.begin_drain(4.0), "draining for 0 s: 2 running, 1 waiting"),
    ],
)
def test_the_status_in_one_line(pod, prepare, line):
    prepare(pod)

    assert pod.status_line(4.0) == line


def test_the_status_of_a_warmup(new_pod):
    pod = new_pod()
    assert pod.status_line(1.0) == "loading for 1 s: the engine is not healthy yet"
    pod.apply(Healthy(), 1.0)
    pod.warmup.step, pod.warmup.steps = 1, 2
    assert pod.status_line(3.0) == "warming for 2 s: 1 of 2 steps done"
    pod.warmed(1, Result(verdict=Verdict.FAILED, problems=("too", "slow")), 1.0, 2.0)
    assert pod.status_line(3.0) == "warming for 2 s: too; slow"
    pod.observed.sample = replace(SAMPLE, waiting=None)
    assert pod.observed.load_line() == "2 running, ? waiting"


def test_bytes_follow_the_block_size_and_dtype_that_the_engine_tells(new_pod):
    pod = new_pod(tensor_parallel=2)
    pod.geometry.config = LLAMA_31_8B
    pod.scraped(SAMPLE, 1.0)
    assert pod.pod_state(1.0).kv.page_bytes == 32768
    pod.scraped(replace(SAMPLE, block_size=32, kv_dtype="fp8"), 2.0)
    assert pod.pod_state(2.0).kv.page_bytes == 32768
    assert pod.pod_state(2.0).kv.capacity_bytes == 100 * 32 * 65536
    pod.geometry.config = {**LLAMA_31_8B, "num_hidden_layers": 16}
    assert pod.pod_state(2.0).kv.capacity_bytes == 100 * 32 * 32768


def test_a_set_dtype_overrides_what_the_engine_tells(new_pod):
    pod = new_pod(kv_cache_dtype="fp8")
    pod.geometry.config = LLAMA_31_8B
    pod.scraped(SAMPLE, 1.0)

    assert pod.pod_state(1.0).kv.page_bytes == 32768


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({**LLAMA_31_8B, "num_hidden_layers": -1}, "num_hidden_layers is -1"),
        ({**LLAMA_31_8B, "model_type": "deepseek_v4"}, "deepseek_v4"),
    ],
    ids=["absurd", "unknown"],
)
def test_a_configuration_without_bytes_is_a_problem_and_nothing_more(new_pod, config, words):
    pod = new_pod()
    pod.geometry.config = config
    pod.scraped(SAMPLE, 1.0)
    state = pod.pod_state(1.0)

    assert (state.kv.capacity_bytes, state.kv.capacity_tokens) == (None, 1600.0)
    assert any(words in problem for problem in state.problems)


def test_parallel_sizes_that_contradict_each_other_are_a_problem(new_pod):
    pod = new_pod(tensor_parallel=4, decode_context_parallel=3)
    pod.geometry.config = LLAMA_31_8B
    pod.scraped(SAMPLE, 1.0)

    assert pod.pod_state(1.0).kv.page_bytes is None
    assert any("decode context parallel" in problem for problem in pod.problems(1.0))


def test_a_phase_that_can_not_be_saved_is_a_problem_until_it_can(pod, tmp_path):
    shutil.rmtree(tmp_path)
    pod.apply(Cordoned("op"), 4.0)
    assert pod.problems(4.0) == ("the phase can't be saved: No such file or directory",)
    tmp_path.mkdir()
    pod.apply(Cordoned("op"), 5.0)
    assert pod.problems(5.0) == ()


def test_a_problem_is_logged_once(pod, caplog):
    for second in range(4, 9):
        pod.scrape_failed("timed_out", "late", float(second))
        pod.tick(float(second))

    assert caplog.text.count("metrics page: late") == 1


def test_the_verdict_is_kept_with_the_phase(pod):
    pod.apply(WarmupEnded(1, Verdict.FAILED), 9.0)

    assert pod.pod_state(9.0).warmup.verdict == "Warm"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, None), ({"config_file": "/c"}, False), ({"config_url": "https://h/c"}, False)],
)
def test_whether_a_configuration_is_there_is_told_where_one_is_asked_for(
    new_pod, settings, expected
):
    assert new_pod(**settings).view(1.0).config_loaded is expected
