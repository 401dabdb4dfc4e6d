"""Pages that prometheus_client renders, with any labels, values and order, scan to what went in."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from cacheaware_sidecar.engines import scan

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)
COUNTS = st.floats(min_value=0, max_value=1e15)


@st.composite
def loads(draw):
    """Engines with their models, and what each carries."""
    engines = draw(st.lists(st.integers(0, 20).map(str), min_size=1, max_size=4, unique=True))
    model = draw(TEXT)
    return [
        {
            "labels": {"engine": engine, "model_name": model, "zone": draw(TEXT)},
            "running": draw(COUNTS),
            "waiting": draw(COUNTS),
            "usage": draw(st.floats(0, 1)),
            "tokens": draw(st.integers(1, 10**9)),
            "prompt": draw(COUNTS),
            "ttft": draw(st.lists(st.floats(0, 100), max_size=4)),
        }
        for engine in engines
    ]


def render(load: list[dict], seed: int) -> bytes:
    registry = CollectorRegistry()
    names = list(load[0]["labels"])
    gauges = {
        "running": Gauge("vllm:num_requests_running", "Running.", names, registry=registry),
        "waiting": Gauge("vllm:num_requests_waiting", "Waiting.", names, registry=registry),
        "usage": Gauge("vllm:kv_cache_usage_perc", "1 means 100 %.", names, registry=registry),
    }
    info = ["kv_cache_size_tokens", "block_size", "engine", "num_gpu_blocks"]
    config = Gauge("vllm:cache_config_info", "Config.", info, registry=registry)
    prompt = Counter("vllm:prompt_tokens", "Tokens.", names, registry=registry)
    ttft = Histogram("vllm:time_to_first_token_seconds", "TTFT.", names, registry=registry)
    for one in load:
        for name, gauge in gauges.items():
            gauge.labels(**one["labels"]).set(one[name])
        config.labels(str(one["tokens"]), "16", one["labels"]["engine"], "99").set(1)
        prompt.labels(**one["labels"]).inc(one["prompt"])
        for seconds in one["ttft"]:
            ttft.labels(**one["labels"]).observe(seconds)
    return shuffled(generate_latest(registry), seed)


def shuffled(page: bytes, seed: int) -> bytes:
    lines = page.splitlines(keepends=True) if b"\r" not in page else page.split(b"\n")
    random.Random(seed).shuffle(lines)
    return b"\n".join(line.rstrip(b"\n") for line in lines) + b"\n"


@given(loads(), st.integers())
def test_a_rendered_page_scans_to_what_went_in(load, seed):
    sample = scan(render(load, seed))
    assert sample.problems == ()
    assert sample.engines == len(load)
    assert sample.models == (load[0]["labels"]["model_name"],)
    for field in ("running", "waiting"):
        assert getattr(sample, field) == pytest.approx(sum(one[field] for one in load))
    tokens = sum(one["tokens"] for one in load)
    used = sum(one["usage"] * one["tokens"] for one in load)
    assert sample.capacity_tokens == tokens
    assert sample.usage == pytest.approx(used / tokens, abs=1e-9)
    assert sample.used_tokens == pytest.approx(used, abs=1e-3)
    assert sample.usage_max == max(one["usage"] for one in load)
    assert sample.prompt_tokens == pytest.approx(sum(one["prompt"] for one in load))


@given(loads(), st.integers())
def test_a_rendered_histogram_scans_to_what_was_observed(load, seed):
    histogram = scan(render(load, seed)).ttft
    observed = [seconds for one in load for seconds in one["ttft"]]
    if not observed and histogram is None:
        return
    assert histogram.count == len(observed)
    assert histogram.sum == pytest.approx(sum(observed))
    for bound, count in histogram.buckets:
        assert count == sum(seconds <= bound for seconds in observed)
