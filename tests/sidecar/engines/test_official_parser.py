"""Every public page, against prometheus_client's parser under rules written a second time."""

import math
from collections import defaultdict

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cacheaware_sidecar.engines import EngineSample, Histogram, scan

PAGES = {
    "llamacpp-0c1e570-executed": "llamacpp",
    "llamacpp-2026-verbatim-excerpt": "llamacpp",
    "llamacpp-pre-2025-05-synthetic": "llamacpp",
    "llm-d-inference-sim-0.9-rendered": "inference-sim",
    "lmdeploy-0.16.0-generated": "lmdeploy",
    "sglang-0.4-docs-verbatim": "sglang",
    "sglang-0.4.6.post5-generated": "sglang",
    "sglang-0.5.2-generated": "sglang",
    "sglang-0.5.23-generated": "sglang",
    "tgi-3.3-rendered": "tgi",
    "trtllm-2026-rendered": "trtllm",
    "trtllm-triton-backend-README-verbatim": "triton-trtllm",
    "vllm-0.10.2-generated": "vllm",
    "vllm-0.11.2-generated": "vllm",
    "vllm-0.14.1-generated": "vllm",
    "vllm-0.21.0-generated": "vllm",
    "vllm-0.24.0-generated": "vllm",
    "vllm-0.28-qwen3.8-27b-hybrid-verbatim-excerpt": "vllm",
    "vllm-0.33.0-dp2-generated": "vllm",
    "vllm-0.33.0-generated": "vllm",
    "vllm-0.5-kubeai-verbatim": "vllm",
    "vllm-0.6-aibrix-doc-verbatim": "vllm",
    "vllm-0.8.5-generated": "vllm",
    "vllm-gemma4-31b-nvfp4-verbatim-excerpt": "vllm",
    "vllm-triton-vllm_backend-README-verbatim": "vllm",
}

RUNNING = {
    "vllm": "vllm:num_requests_running",
    "inference-sim": "vllm:num_requests_running",
    "sglang": "sglang:num_running_reqs",
    "tgi": "tgi_batch_current_size",
    "trtllm": "trtllm_num_requests_running",
    "llamacpp": "llamacpp:requests_processing",
    "lmdeploy": "lmdeploy:num_requests_running",
}
WAITING = {
    "vllm": "vllm:num_requests_waiting",
    "inference-sim": "vllm:num_requests_waiting",
    "sglang": "sglang:num_queue_reqs",
    "tgi": "tgi_queue_size",
    "trtllm": "trtllm_num_requests_waiting",
    "llamacpp": "llamacpp:requests_deferred",
    "lmdeploy": "lmdeploy:num_requests_waiting",
}
USAGE = {
    "vllm": "vllm:kv_cache_usage_perc",
    "inference-sim": "vllm:kv_cache_usage_perc",
    "sglang": "sglang:token_usage",
    "trtllm": "trtllm_kv_cache_utilization",
    "llamacpp": "llamacpp:kv_cache_usage_ratio",
    "lmdeploy": "lmdeploy:gpu_cache_usage_perc",
}
COUNTERS = {
    "prompt_tokens": {
        "vllm": ["vllm:prompt_tokens_total"],
        "inference-sim": ["vllm:prompt_tokens_total"],
        "sglang": ["sglang:prompt_tokens_total"],
        "tgi": ["tgi_request_input_length_sum"],
        "trtllm": ["trtllm_prompt_tokens_total"],
        "llamacpp": ["llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"],
        "lmdeploy": ["lmdeploy:prompt_tokens_total"],
    },
    "generation_tokens": {
        "vllm": ["vllm:generation_tokens_total"],
        "inference-sim": ["vllm:generation_tokens_total"],
        "sglang": ["sglang:generation_tokens_total"],
        "tgi": ["tgi_request_generated_tokens_sum"],
        "trtllm": ["trtllm_generation_tokens_total"],
        "llamacpp": ["llamacpp:tokens_predicted_total"],
        "lmdeploy": ["lmdeploy:generation_tokens_total"],
    },
    "requests": {
        "vllm": ["vllm:request_success_total"],
        "inference-sim": ["vllm:request_success_total"],
        "tgi": ["tgi_request_success_total", "tgi_request_failure_total"],
        "trtllm": ["trtllm_num_requests_completed_total"],
        "lmdeploy": ["lmdeploy:request_success_total"],
    },
    "preemptions": {"vllm": ["vllm:num_preemptions_total"]},
}
HISTOGRAMS = {
    "ttft": {
        "vllm": ["vllm:time_to_first_token_seconds"],
        "sglang": ["sglang:time_to_first_token_seconds"],
        "trtllm": ["trtllm_time_to_first_token_seconds"],
        "lmdeploy": ["lmdeploy:time_to_first_token_seconds"],
    },
    "tpot": {
        "vllm": ["vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"],
        "sglang": ["sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"],
        "tgi": ["tgi_request_mean_time_per_token_duration"],
        "trtllm": ["trtllm_time_per_output_token_seconds"],
        "lmdeploy": ["lmdeploy:iter_token_latency"],
    },
    "e2e": {
        "vllm": ["vllm:e2e_request_latency_seconds"],
        "sglang": ["sglang:e2e_request_latency_seconds"],
        "tgi": ["tgi_request_duration"],
        "lmdeploy": ["lmdeploy:e2e_request_latency_seconds"],
    },
    "queue": {
        "vllm": ["vllm:request_queue_time_seconds"],
        "tgi": ["tgi_request_queue_duration"],
        "trtllm": ["trtllm_request_queue_time_seconds"],
        "lmdeploy": ["lmdeploy:request_queue_time_seconds"],
    },
}


class Official:
    """A page as prometheus_client reads it."""

    def __init__(self, text):
        self.samples = defaultdict(list)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self.samples[sample.name].append((sample.labels, sample.value))

    def sum(self, name, **labels):
        found = self.samples.get(name)
        if not found:
            return None
        return sum(value for each, value in found if labels.items() <= each.items())

    def mean(self, name):
        found = self.samples.get(name)
        return sum(value for _, value in found) / len(found) if found else None

    def sum_of_all(self, names):
        values = [self.sum(name) for name in names]
        return None if not names or values[0] is None else sum(filter(None, values))

    def histogram(self, names):
        for name in names:
            if (count := self.sum(f"{name}_count")) is None:
                continue
            buckets = defaultdict(float)
            for labels, value in self.samples[f"{name}_bucket"]:
                buckets[float(labels["le"])] += value
            buckets[math.inf] = count
            return Histogram(count, self.sum(f"{name}_sum"), tuple(sorted(buckets.items())))
        return None


@pytest.fixture(params=PAGES, ids=list(PAGES))
def page(request, shared) -> tuple[str, EngineSample, Official]:
    content = (shared / "data" / "metrics" / f"{request.param}.prom").read_bytes()
    return PAGES[request.param], scan(content), Official(content.decode())


def test_no_page_is_left_out(shared):
    assert {path.stem for path in (shared / "data" / "metrics").glob("*.prom")} == set(PAGES)


def test_the_engine_is_recognised(page):
    engine, sample, _ = page
    assert sample.engine == engine


def test_running_and_waiting_are_the_parsers(page):
    engine, sample, official = page
    if engine == "triton-trtllm":
        name = "nv_trt_llm_request_metrics"
        assert sample.running == official.sum(name, request_type="active")
        assert sample.waiting == official.sum(name, request_type="waiting")
    else:
        assert sample.running == official.sum(RUNNING[engine])
        assert sample.waiting == official.sum(WAITING[engine])


def test_usage_is_the_parsers(page):
    engine, sample, official = page
    if engine == "triton-trtllm":
        name = "nv_trt_llm_kv_cache_block_metrics"
        expected = official.sum(name, kv_cache_block_type="fraction")
    elif engine == "tgi":
        expected = None
    else:
        expected = official.mean(USAGE[engine])
    if engine == "vllm" and expected is None:
        expected = official.mean("vllm:gpu_cache_usage_perc")
    assert sample.usage == (expected if expected is None else pytest.approx(expected, rel=1e-12))


def test_capacity_is_the_parsers(page):
    engine, sample, official = page
    assert sample.capacity_tokens == capacity(engine, official)


def capacity(engine, official):
    """Tokens that fit, by the rules of the reference."""
    if engine in {"vllm", "inference-sim"}:
        infos = [labels for labels, _ in official.samples.get("vllm:cache_config_info", [])]
        if not infos:
            return None
        if "kv_cache_size_tokens" in infos[0]:
            return sum(int(labels["kv_cache_size_tokens"]) for labels in infos)
        return int(infos[0]["num_gpu_blocks"]) * int(infos[0]["block_size"])
    if engine == "triton-trtllm":
        name = "nv_trt_llm_kv_cache_block_metrics"
        blocks = official.sum(name, kv_cache_block_type="max")
        return blocks * official.sum(name, kv_cache_block_type="tokens_per")
    if engine == "trtllm":
        blocks = official.sum("trtllm_kv_cache_max_blocks")
        return blocks * official.sum("trtllm_kv_cache_tokens_per_block")
    names = {"sglang": "sglang:max_total_num_tokens", "tgi": "tgi_batch_max_total_tokens"}
    return official.sum(names.get(engine, ""))


@pytest.mark.parametrize("counter", COUNTERS)
def test_counters_are_the_parsers(page, counter):
    engine, sample, official = page
    expected = official.sum_of_all(COUNTERS[counter].get(engine, []))
    assert getattr(sample, counter) == expected


PREFIX_CACHE = {
    "vllm": ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"),
    "inference-sim": ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"),
    "sglang": ("sglang:prompt_tokens_total", "sglang:cached_tokens_total"),
    "trtllm": ("trtllm_prompt_tokens_total", "trtllm_prompt_cached_tokens_total"),
    "lmdeploy": ("lmdeploy:prompt_tokens_total", "lmdeploy:cached_tokens_total"),
}


def test_prefix_counters_are_the_parsers(page):
    engine, sample, official = page
    queries, hits = (official.sum(name) for name in PREFIX_CACHE.get(engine, ("", "")))
    if engine == "vllm" and queries is None:
        queries = official.sum("vllm:gpu_prefix_cache_queries_total")
        hits = official.sum("vllm:gpu_prefix_cache_hits_total")
    if engine == "llamacpp":
        hits = official.sum("llamacpp:prompt_tokens_cached_total")
        queries = None if hits is None else hits + official.sum("llamacpp:prompt_tokens_total")
    assert (sample.prefix_queries, sample.prefix_hits) == (queries, hits)


@pytest.mark.parametrize("histogram", HISTOGRAMS)
def test_histograms_are_the_parsers(page, histogram):
    engine, sample, official = page
    assert getattr(sample, histogram) == official.histogram(HISTOGRAMS[histogram].get(engine, []))


def test_started_at_is_the_parsers(page):
    engine, sample, official = page
    start = official.sum("process_start_time_seconds")
    if engine == "trtllm":
        start = official.sum("trtllm_prompt_tokens_created")
    assert sample.started_at == start


def test_the_sum_of_the_reasons_is_waiting(page):
    _, sample, _ = page
    if sample.waiting_by_reason:
        assert sum(count for _, count in sample.waiting_by_reason) == sample.waiting
