"""Counters to rates, across restarts."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sidecar.engines import (
    EngineSample,
    Rates,
    fell_alone,
    rates,
    restarted,
    without_fallen,
)
from cacheaware_sidecar.engines.rates import COUNTERS

BEFORE = EngineSample(
    engine="vllm",
    prompt_tokens=1000,
    generation_tokens=200,
    requests=10,
    preemptions=5,
    prefix_queries=1000,
    prefix_hits=400,
    started_at=1.0,
)
AFTER = EngineSample(
    engine="vllm",
    prompt_tokens=4000,
    generation_tokens=500,
    requests=20,
    preemptions=8,
    prefix_queries=4000,
    prefix_hits=1900,
    started_at=1.0,
)


def test_rates_between_two_samples():
    assert rates(BEFORE, AFTER, 10) == Rates(
        prompt_tokens_per_s=300,
        generation_tokens_per_s=30,
        requests_per_s=1,
        prompt_tokens_per_request=300,
        generation_tokens_per_request=30,
        prefix_hit_ratio=0.5,
        preemptions_per_s=0.3,
    )


def test_nothing_happened_is_zero_per_second_and_no_ratio():
    assert rates(AFTER, AFTER, 10) == Rates(
        prompt_tokens_per_s=0, generation_tokens_per_s=0, requests_per_s=0, preemptions_per_s=0
    )


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf])
def test_without_time_between_there_are_no_rates(seconds):
    assert rates(BEFORE, AFTER, seconds) == Rates()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(BEFORE, replace(AFTER, started_at=2.0), id="another start"),
        pytest.param(BEFORE, replace(AFTER, engine="sglang"), id="another engine"),
        pytest.param(
            replace(BEFORE, preemptions=9, started_at=None),
            AFTER,
            id="a counter that fell, and the earlier start is unknown",
        ),
        pytest.param(
            replace(BEFORE, preemptions=9),
            replace(AFTER, started_at=None),
            id="a counter that fell, and the later start is unknown",
        ),
        pytest.param(
            replace(BEFORE, preemptions=9, started_at=0.5),
            AFTER,
            id="a counter that fell, and another start",
        ),
        pytest.param(
            replace(BEFORE, preemptions=9, prefix_hits=2000), AFTER, id="two counters that fell"
        ),
        pytest.param(
            EngineSample(engine="vllm", prompt_tokens=1000, preemptions=9, started_at=1.0),
            EngineSample(engine="vllm", prompt_tokens=400, preemptions=8, started_at=1.0),
            id="all counters fell",
        ),
        pytest.param(
            replace(BEFORE, preemptions=9, engines=2),
            replace(AFTER, engines=2),
            id="a counter that fell on a page of two engines, one of which may be anew",
        ),
        pytest.param(
            replace(BEFORE, preemptions=9, engines=2),
            replace(AFTER, engines=1),
            id="a counter that fell when an engine left the page",
        ),
    ],
)
def test_after_a_restart_the_whole_value_has_grown(before, after):
    assert restarted(before, after)
    assert fell_alone(before, after) is None
    assert without_fallen(before, after) is before
    assert rates(before, after, 10).prompt_tokens_per_s == after.prompt_tokens / 10
    assert rates(before, after, 10).preemptions_per_s == 0.8


@pytest.mark.parametrize("engines", [None, 1])
def test_a_counter_that_fell_alone_in_the_same_process_is_unknown_and_the_others_go_on(engines):
    before = replace(BEFORE, preemptions=9, engines=engines)
    assert fell_alone(before, AFTER) == "preemptions"
    assert without_fallen(before, AFTER).preemptions is None
    assert not restarted(before, AFTER)
    found = rates(before, AFTER, 10)
    assert found.preemptions_per_s is None
    assert (found.prompt_tokens_per_s, found.prefix_hit_ratio) == (300, 0.5)


@pytest.mark.parametrize("held", [{}, {"requests": 0}, {"requests": None}])
def test_a_counter_that_fell_while_none_held_a_count_is_a_restart(held):
    before = EngineSample(engine="vllm", preemptions=9, started_at=1.0, **held)
    assert restarted(before, replace(before, preemptions=0, requests=10))


def test_queries_that_fell_alone_give_no_hit_ratio():
    assert rates(replace(BEFORE, prefix_queries=5000), AFTER, 10).prefix_hit_ratio is None


def test_an_unknown_start_is_no_restart():
    assert not restarted(BEFORE, replace(AFTER, started_at=None))
    assert not restarted(replace(BEFORE, started_at=None), AFTER)


@pytest.mark.parametrize("sample", ["before", "after"])
def test_an_unknown_counter_has_no_rate(sample):
    before = replace(BEFORE, requests=None) if sample == "before" else BEFORE
    after = replace(AFTER, requests=None) if sample == "after" else AFTER
    result = rates(before, after, 10)
    assert (result.requests_per_s, result.prompt_tokens_per_request) == (None, None)
    assert result.prompt_tokens_per_s == 300


def test_without_prefix_counters_the_engines_own_ratio_counts():
    after = replace(AFTER, prefix_hits=None, prefix_hit_ratio=0.31)
    assert rates(BEFORE, after, 10).prefix_hit_ratio == 0.31


def test_more_hits_than_queries_is_no_ratio():
    assert rates(BEFORE, replace(AFTER, prefix_hits=9000), 10).prefix_hit_ratio is None


IDLE = EngineSample(
    engine="vllm", running=0, requests=100, prompt_tokens=50_000, generation_tokens=10_000
)


@pytest.mark.parametrize(
    ("before", "after", "prompt", "generation"),
    [
        pytest.param(
            IDLE,
            {"running": 24, "requests": 101, "prompt_tokens": 62_500, "generation_tokens": 11_300},
            500,
            100,
            id="a ramp-up: 25 began, 1 ended, 24 are half done",
        ),
        pytest.param(
            replace(IDLE, running=24),
            {"running": 24, "requests": 110, "prompt_tokens": 55_000, "generation_tokens": 11_000},
            500,
            100,
            id="steady: as many began as ended",
        ),
        pytest.param(
            replace(IDLE, running=24),
            {"running": 0, "requests": 124, "generation_tokens": 11_200},
            None,
            100,
            id="running empty: none began, 24 got their second half",
        ),
        pytest.param(
            replace(IDLE, running=24),
            {"running": 24, "generation_tokens": 11_200},
            None,
            None,
            id="running on: none began, none ended",
        ),
        pytest.param(
            replace(IDLE, running=24),
            {"running": 12, "requests": 106, "generation_tokens": 11_200},
            None,
            None,
            id="preempted: more stopped running than ended",
        ),
        pytest.param(
            IDLE,
            {"running": 1, "prompt_tokens": 50_500, "generation_tokens": 10_002},
            500,
            None,
            id="one began: its answer is not a whole one",
        ),
        pytest.param(
            replace(IDLE, running=None),
            {"running": 24, "requests": 110, "prompt_tokens": 55_000, "generation_tokens": 11_000},
            500,
            100,
            id="running was unknown: what ended counts",
        ),
        pytest.param(
            IDLE,
            {"running": None, "requests": 110, "prompt_tokens": 55_000},
            500,
            0,
            id="running is unknown: what ended counts",
        ),
        pytest.param(
            replace(IDLE, running=24),
            {"running": 8, "requests": 4, "prompt_tokens": 6_000, "generation_tokens": 800},
            500,
            100,
            id="a restart: all that runs began since",
        ),
    ],
)
def test_a_request_has_the_tokens_of_what_began_and_what_is_half_done(
    before, after, prompt, generation
):
    result = rates(before, replace(before, **after), 60)
    assert (result.prompt_tokens_per_request, result.generation_tokens_per_request) == (
        prompt,
        generation,
    )


@pytest.mark.parametrize(
    ("engine", "prompt", "generation"),
    [
        ("vllm", 500, 100),
        ("lmdeploy", 500, 100),
        ("sglang", 12_500, 1300),
        ("trtllm", 12_500, 1300),
        ("inference-sim", 12_500, 1300),
        ("tgi", 500, 1300),
    ],
)
def test_tokens_that_an_engine_counts_at_the_end_are_those_of_requests_that_ended(
    engine, prompt, generation
):
    before = replace(IDLE, engine=engine)
    after = replace(
        before, running=24, requests=101, prompt_tokens=62_500, generation_tokens=11_300
    )
    result = rates(before, after, 60)
    assert (result.prompt_tokens_per_request, result.generation_tokens_per_request) == (
        prompt,
        generation,
    )


COUNTS = st.none() | st.floats(0, 1e12)
SAMPLES = st.builds(
    EngineSample, running=COUNTS, **dict.fromkeys(COUNTERS, COUNTS), started_at=COUNTS
)


@given(SAMPLES, SAMPLES, st.floats(allow_nan=True))
def test_no_rate_is_negative_or_not_a_number(before, after, seconds):
    result = rates(before, after, seconds)
    for name in Rates.__dataclass_fields__:
        value = getattr(result, name)
        assert value is None or value >= 0
    assert result.prefix_hit_ratio is None or result.prefix_hit_ratio <= 1
