import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from cacheaware_sidecar.engines import scan
from cacheaware_sim.engine import Engine
from cacheaware_sim.metrics_page import MetricsPage
from cacheaware_sim.request import Request
from cacheaware_sim.sample import sample_of

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
BEHIND_A_FLAG = ("vllm:kv_block_", "vllm:lora_requests_info")
STARTED_AT = 1_700_000_000.5


def page_of(config) -> MetricsPage:
    return MetricsPage(model_name=MODEL, config=config, created=STARTED_AT)


def shape(text: str) -> list[str]:
    """The lines of vLLM's own series without their values."""
    lines = (line for line in text.splitlines() if "vllm:" in line)
    kept = (line for line in lines if not any(name in line for name in BEHIND_A_FLAG))
    return [line if line.startswith("#") else line.rpartition(" ")[0] for line in kept]


def test_the_page_is_that_of_vllm_line_by_line_but_for_the_numbers(shared, config):
    real = (shared / "data/metrics/vllm-0.33.0-generated.prom").read_text()
    like = config(num_blocks=27_123, block_size=16, max_model_len=131_072)

    ours = page_of(like).render(Engine(like).snapshot(), process=False).decode()

    assert shape(ours) == shape(real)


def test_prometheus_client_parses_the_page_and_every_series_is_there_from_the_start(config):
    text = page_of(config()).render(Engine(config()).snapshot()).decode()

    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    assert samples["vllm:num_requests_running"] == 0.0
    assert samples["vllm:prompt_tokens_total"] == 0.0
    assert samples["vllm:prompt_tokens_created"] == STARTED_AT
    assert samples["vllm:time_to_first_token_seconds_count"] == 0.0
    assert samples["process_resident_memory_bytes"] > 1e6


def test_the_capacity_counts_the_null_block_and_usage_does_not(config):
    engine = Engine(config())
    engine.submit(Request(1, 100, 10), 0)
    engine.step(0)
    engine.step(1)

    text = page_of(config()).render(engine.snapshot(), process=False).decode()

    assert 'kv_cache_size_tokens="2048"' in text
    assert 'kv_cache_max_concurrency="2.0"' in text
    assert 'num_gpu_blocks="64"' in text
    assert f'model_name="{MODEL}"}} {4 / 63}' in text


def test_numbers_that_are_none_come_through_as_nan(config):
    snapshot = replace(Engine(config()).snapshot(), usage=math.nan)

    sample = scan(page_of(config()).render(snapshot, process=False))

    assert sample.usage is None
    assert sample.problems


@settings(max_examples=25, deadline=None)
@given(
    requests=st.lists(st.tuples(st.integers(1, 300), st.integers(1, 60)), max_size=20),
    steps=st.integers(0, 80),
    names=st.booleans(),
)
def test_a_scan_of_the_page_says_what_the_model_says(config, requests, steps, names):
    engine, now = Engine(config()), 0.0
    for number, (prompt, output) in enumerate(requests):
        found = list(range(1, prompt // 32 + 1)) if names else None
        engine.submit(Request(number, prompt, output, block_names=found), now)
    for _ in range(steps):
        now += engine.step(now).duration_s or 0.01
    snapshot = engine.snapshot()

    sample = scan(page_of(config()).render(snapshot, process=False))

    assert replace(sample, version=None) == sample_of(snapshot, config(), MODEL, STARTED_AT)


@pytest.mark.parametrize(
    ("longest", "bounds"),
    [(1024, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]), (7, [1.0, 2.0, 5.0])],
)
def test_token_buckets_end_at_the_longest_request(config, longest, bounds):
    engine = Engine(config(max_model_len=longest))

    buckets = engine.snapshot().histograms["request_prompt_tokens"].buckets

    assert [bound for bound, _ in buckets] == [*bounds, math.inf]
