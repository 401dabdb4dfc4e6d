"""What answers of sidecars and of engines say."""

import json

import pytest
from tests.operator.fake_pods import FakePod

from cacheaware.decide.fleet import Unknown
from cacheaware.observe import direct, sidecar
from cacheaware.observe.memory import Mark
from cacheaware.observe.poll import Answer
from cacheaware_sidecar.phase import Phase

PAGE = """\
vllm:num_requests_running{engine="0",model_name="m"} 3
vllm:num_requests_waiting{engine="0",model_name="m"} 1
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.4
vllm:prompt_tokens_total{engine="0",model_name="m"} PROMPT
vllm:generation_tokens_total{engine="0",model_name="m"} 100
"""


def answer(body, at=0.0):
    return Answer(at, content=body.encode() if isinstance(body, str) else json.dumps(body).encode())


def page(prompt):
    return answer(PAGE.replace("PROMPT", str(prompt)))


def no_mark(_):
    return None


def test_a_state_becomes_a_load():
    state = FakePod(usage=0.25, running=2, waiting=3).state()
    state["rates"] = {"prompt_tokens_per_request": 100, "generation_tokens_per_request": 50}
    found = sidecar.look(answer(state))
    assert (found.load.usage, found.load.used_tokens, found.load.waiting) == (0.25, 2500, 3)
    assert found.load.tokens_per_request == 150
    assert (found.phase, found.seq, found.sample_age_s) == (Phase.SERVING, 1, 0.2)


@pytest.mark.parametrize("sleeping", [True, False, None])
def test_whether_an_engine_sleeps_is_told_by_its_sidecar_or_its_page(sleeping):
    told = sidecar.look(answer(FakePod().state() | {"sleeping": sleeping}))
    assert told.load.sleeping is sleeping
    state = 'vllm:engine_sleep_state{engine="0",sleep_state="awake"} '
    told = "" if sleeping is None else f"{state}{int(not sleeping)}\n"
    found = direct.look([answer(PAGE.replace("PROMPT", "1") + told)], no_mark)
    assert found.load.sleeping is sleeping


def test_a_sidecar_that_is_older_does_not_tell_whether_its_engine_sleeps():
    assert sidecar.look(answer(FakePod().state())).load.sleeping is None


TTFT = {"count": 4, "sum": 1.5, "buckets": [[0.5, 3], ["+Inf", 4]]}


def test_of_the_latencies_only_the_first_tokens_is_read():
    whole = {"ttft_s": TTFT, "tpot_s": {"count": "broken"}, "e2e_s": None}
    found = sidecar.look(answer({**FakePod().state(), "latency": whole}))
    assert (found.ttft.count, found.ttft.buckets[0]) == (4, (0.5, 3))


@pytest.mark.parametrize("latency", [{"ttft_s": {"count": "many"}}, {"ttft_s": 3}, [], "slow"])
def test_a_latency_of_the_wrong_type_is_told(latency):
    found = sidecar.look(answer({**FakePod().state(), "latency": latency}))
    assert (found.unknown, "latency" in found.detail) == (Unknown.INVALID, True)


@pytest.mark.parametrize("body", [[], 3, None, "state"])
def test_an_answer_that_is_no_state_is_invalid(body):
    assert sidecar.look(answer(json.dumps(body))).load is None


def test_an_unknown_field_of_a_newer_sidecar_is_ignored():
    assert sidecar.look(answer({**FakePod().state(), "new": {"x": 1}})).load is not None


@pytest.mark.parametrize(
    ("change", "unknown"),
    [
        ({"schema": 99}, Unknown.SCHEMA),
        ({"phase": "asleep"}, Unknown.INVALID),
        ({"running": "many"}, Unknown.INVALID),
        ({"sample_age_s": None}, Unknown.NOT_YET_SEEN),
        ({"sample_age_s": None, "problems": ["MetricsUnauthorized: 401"]}, Unknown.UNAUTHORIZED),
    ],
)
def test_a_state_that_tells_no_load_says_why(change, unknown):
    found = sidecar.look(answer({**FakePod().state(), **change}))
    assert (found.load, found.unknown) == (None, unknown)


@pytest.mark.parametrize("body", ["not json", "[]", "null", "3", "[" * 100_000])
def test_what_is_no_state_is_invalid(body):
    assert sidecar.look(answer(body)).unknown in {Unknown.INVALID, Unknown.SCHEMA}


def test_a_failed_fetch_keeps_its_reason():
    failed = Answer(1.0, unknown=Unknown.REFUSED, detail="refused")
    assert sidecar.look(failed).unknown is Unknown.REFUSED
    assert direct.look([page(1), failed], no_mark).unknown is Unknown.REFUSED


def test_a_page_becomes_a_load_without_rates_at_first():
    found = direct.look([page(1000)], no_mark)
    assert (found.load.running, found.load.waiting, found.load.usage) == (3, 1, 0.4)
    assert found.load.prompt_tokens_per_s is None


def test_rates_are_measured_against_the_mark_and_not_across_a_reset():
    first = direct.look([page(1000)], no_mark)
    mark = Mark(0.0, first.samples, None)
    later = Answer(10.0, content=page(1500).content)
    assert direct.look([later], lambda _: mark).load.prompt_tokens_per_s == pytest.approx(50)
    reset = Answer(10.0, content=page(5).content)
    assert (direct.look([reset], lambda _: mark).load.prompt_tokens_per_s or 0) >= 0
    other = Mark(0.0, (*first.samples, *first.samples), None)
    assert direct.look([later], lambda _: other).load.prompt_tokens_per_s is None


@pytest.mark.parametrize(
    ("body", "unknown"),
    [
        ("", Unknown.UNSUPPORTED),
        ('{"error":{"message":"Invalid API Key","code":401}}', Unknown.UNSUPPORTED),
        ("<html>hello</html>", Unknown.UNSUPPORTED),
        ("process_cpu_seconds_total 5\n", Unknown.UNSUPPORTED),
        ('vllm:num_requests_running{engine="0",model_name="m"} NaN\n', Unknown.INVALID),
    ],
)
def test_a_page_without_a_load_is_unknown_and_never_zero(body, unknown):
    found = direct.look([answer(body)], no_mark)
    assert (found.load, found.unknown) == (None, unknown)


def test_only_the_names_of_the_engine_that_the_user_told_are_read():
    assert direct.look([page(1)], no_mark, "vllm").load.running == 3
    assert direct.look([page(1)], no_mark, "sglang").load is None


ENGINE = """\
process_start_time_seconds {started}
vllm:num_requests_running{{engine="0"}} {running}
vllm:num_requests_waiting{{engine="0"}} 1
vllm:kv_cache_usage_perc{{engine="0"}} {usage}
vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="{blocks}"}} 1
vllm:prompt_tokens_total{{engine="0"}} {prompt}
"""


def engine(started=1.0, running=1, usage=1.0, blocks=100, prompt=0.0):
    told = ENGINE.format(
        started=started, running=running, usage=usage, blocks=blocks, prompt=prompt
    )
    return told.encode()


def test_engines_of_one_pod_are_summed_and_usage_is_weighted():
    pages = [engine(), engine(running=3, usage=0.0, blocks=300)]
    found = direct.look([Answer(0.0, content=page) for page in pages], no_mark).load
    assert (found.running, found.waiting) == (4, 2)
    assert (found.usage, found.usage_max) == (pytest.approx(0.25, rel=0.02), 1.0)
    assert found.tokens_per_request is None


def test_what_was_counted_before_one_of_several_engines_began_anew_is_no_rate():
    def at(now, *pages, mark=None):
        return direct.look([Answer(now, content=page) for page in pages], lambda _: mark)

    first = at(0.0, engine(prompt=9e6), engine(prompt=100.0))
    mark = Mark(0.0, first.samples, None)
    later = at(10.0, engine(prompt=9e6 + 500), engine(prompt=600.0), mark=mark)
    assert later.load.prompt_tokens_per_s == pytest.approx(100)
    anew = at(10.0, engine(prompt=9e6 + 500), engine(started=5.0, prompt=6.0), mark=mark)
    assert anew.load.prompt_tokens_per_s is None


@pytest.mark.parametrize("others", [(), (engine(prompt=7e6),)])
def test_a_counter_that_fell_alone_in_one_of_the_engines_has_no_rate(others):
    def samples(prompt, requests):
        own = f'vllm:request_success_total{{engine="0"}} {requests}\n'.encode()
        pages = [page + own for page in (engine(prompt=prompt), *others)]
        return direct.look([Answer(0.0, content=page) for page in pages], no_mark).samples

    found = direct.speed_of(Mark(0.0, samples(9e6, 1000), None), samples(5.0, 1050), 10.0)
    assert found.prompt_tokens_per_s is None
    assert found.requests_per_s == pytest.approx(5 * (1 + len(others)))


def test_of_the_sidecars_findings_the_errors_are_kept():
    findings = [
        {"id": "kv-full", "severity": "warning", "message": "why"},
        {"id": "queue-long", "severity": "error", "message": "why"},
    ]
    assert sidecar.look(answer(FakePod().state() | {"findings": findings})).findings == (
        "queue-long",
    )
    assert sidecar.look(answer(FakePod().state())).findings == ()
    wrong = sidecar.look(answer(FakePod().state() | {"findings": "many"}))
    assert "state.findings is 'many'" in wrong.detail
