"""The other engines, and which one a page is of."""

import pytest

from cacheaware_sidecar.engines import ENGINES, scan


def page(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def sglang(**values: float) -> list[str]:
    return [f"sglang:{name} {value}" for name, value in values.items()]


LOAD = sglang(num_running_reqs=3, num_queue_reqs=2, token_usage=0.5)


class TestSglang:
    def test_ranks_that_repeat_are_taken_once_and_data_parallel_ones_added(self):
        lines = [
            f'sglang:{name}{{dp_rank="{dp}",tp_rank="{tp}",pp_rank="0",moe_ep_rank="{tp}"}} {value}'
            for name, values in {
                "num_running_reqs": (3, 5),
                "num_queue_reqs": (1, 0),
                "token_usage": (0.2, 0.8),
                "max_total_num_tokens": (1000, 3000),
                "kv_used_tokens": (200, 2400),
            }.items()
            for dp, value in enumerate(values)
            for tp in range(4)
        ]
        sample = scan(page(*lines))
        assert (sample.engine, sample.engines) == ("sglang", 2)
        assert (sample.running, sample.waiting) == (8, 1)
        assert (sample.capacity_tokens, sample.used_tokens) == (4000, 2600)
        assert (sample.usage, sample.usage_max) == (pytest.approx(0.65), 0.8)

    def test_of_repeating_ranks_the_largest_counts(self):
        lines = [f'sglang:num_running_reqs{{tp_rank="{tp}"}} {n}' for tp, n in enumerate((3, 7, 5))]
        assert scan(page(*lines)).running == 7

    @pytest.mark.parametrize("counts", [("NaN", 3), (3, "NaN"), (3, -1)])
    def test_one_bad_rank_makes_the_number_unknown(self, counts):
        lines = [f'sglang:num_running_reqs{{tp_rank="{tp}"}} {n}' for tp, n in enumerate(counts)]
        assert scan(page(*lines)).running is None

    def test_priorities_are_parts_of_a_total(self):
        lines = [
            f'sglang:num_queue_reqs{{priority="{priority}"}} {count}'
            for priority, count in (("1", 4), ("", 9), ("2", 5))
        ]
        assert scan(page(*lines)).waiting == 9

    def test_phases_are_added(self):
        lines = [
            'sglang:num_running_reqs{phase="prefill"} 2',
            'sglang:num_running_reqs{phase="decode"} 10',
        ]
        assert scan(page(*lines)).running == 12

    @pytest.mark.parametrize(
        ("name", "field", "value"),
        [
            ("num_grammar_queue_reqs", "waiting", 9),
            ("num_prefill_bootstrap_queue_reqs", "waiting", 9),
            ("num_prefill_prealloc_queue_reqs", "waiting", 9),
            ("num_decode_prealloc_queue_reqs", "waiting", 9),
            ("num_decode_transfer_queue_reqs", "waiting", 9),
            ("num_prefill_inflight_queue_reqs", "running", 10),
            ("num_prefill_infight_queue_reqs", "running", 10),
        ],
    )
    def test_a_request_in_any_queue_is_there(self, name, field, value):
        assert getattr(scan(page(*LOAD, *sglang(**{name: 7}))), field) == value

    def test_tokens_found_in_the_cache_are_not_counted_twice(self):
        sources = {"device": 100, "host": 20, "total": 120}
        lines = [
            f'sglang:cached_tokens_total{{cache_source="{source}"}} {count}'
            for source, count in sources.items()
        ]
        sample = scan(page(*LOAD, *lines, *sglang(prompt_tokens_total=500)))
        assert (sample.prefix_queries, sample.prefix_hits) == (500, 120)
        alone = scan(page(*LOAD, 'sglang:cached_tokens_total{cache_source="total"} 7'))
        assert alone.prefix_hits == 7

    def test_pages_and_their_size(self):
        sample = scan(page(*LOAD, *sglang(num_pages=100, page_size=64, max_total_num_tokens=6400)))
        assert (sample.num_blocks, sample.block_size, sample.capacity_tokens) == (100, 64, 6400)

    def test_a_pool_that_was_never_set_is_unknown(self):
        sample = scan(page(*LOAD, *sglang(num_pages=0, page_size=0, max_total_num_tokens=0)))
        assert (sample.num_blocks, sample.block_size, sample.capacity_tokens) == (None, None, None)
        assert sample.usage == 0.5

    def test_without_a_used_gauge_used_is_usage_times_capacity(self):
        assert scan(page(*LOAD, *sglang(max_total_num_tokens=1000))).used_tokens == 500

    @pytest.mark.parametrize(
        ("lines", "version"),
        [
            (sglang(kv_used_tokens=1, max_total_num_tokens=9), ">0.5.10"),
            (sglang(max_total_num_tokens=9), ">0.5.2"),
            (['sglang:num_running_reqs{engine_type="unified",tp_rank="0"} 1'], ">0.4.6"),
            (['sglang:num_running_reqs{engine_type="unified"} 1'], ">0.4.1"),
            (sglang(num_running_reqs=1), None),
        ],
    )
    def test_a_version_is_only_what_the_names_prove(self, lines, version):
        assert scan(page(*lines)).version == version

    def test_histograms_of_repeating_ranks_are_taken_once(self):
        name = "sglang:queue_time_seconds"
        lines = [
            f'{name}{part}{{{le}tp_rank="{tp}"}} {value}'
            for tp in range(2)
            for part, le, value in (
                ("_bucket", 'le="1",', 2),
                ("_bucket", 'le="+Inf",', 3),
                ("_sum", "", 4.5),
                ("_count", "", 3),
            )
        ]
        queue = scan(page(*LOAD, *lines)).queue
        assert (queue.count, queue.sum) == (3, 4.5)
        assert queue.buckets == ((1.0, 2.0), (float("inf"), 3.0))


class TestTensorRt:
    def test_serve(self):
        sample = scan(
            page(
                "trtllm_num_requests_running 7",
                "trtllm_num_requests_waiting 3",
                "trtllm_kv_cache_utilization 0.25",
                "trtllm_kv_cache_max_blocks 1000",
                "trtllm_kv_cache_tokens_per_block 32",
            )
        )
        assert (sample.engine, sample.running, sample.waiting) == ("trtllm", 7, 3)
        assert (sample.num_blocks, sample.block_size, sample.capacity_tokens) == (1000, 32, 32000)
        assert sample.used_tokens == 8000

    def test_blocks_without_their_size_are_no_tokens(self):
        sample = scan(page("trtllm_num_requests_running 7", "trtllm_kv_cache_max_blocks 1000"))
        assert (sample.num_blocks, sample.capacity_tokens, sample.block_size) == (1000, None, None)

    def test_triton_adds_its_models_and_weighs_their_usage(self):
        lines = [
            f'{name}{{{kind}="{which}",model="{model}",version="1"}} {value}'
            for model, values in {"a": (1, 2, 0.5, 100, 64), "b": (3, 4, 1.0, 300, 64)}.items()
            for name, kind, which, value in zip(
                ["nv_trt_llm_request_metrics"] * 2 + ["nv_trt_llm_kv_cache_block_metrics"] * 3,
                ["request_type"] * 2 + ["kv_cache_block_type"] * 3,
                ["active", "waiting", "fraction", "max", "tokens_per"],
                values,
                strict=True,
            )
        ]
        sample = scan(page(*lines))
        assert (sample.engine, sample.engines, sample.models) == ("triton-trtllm", 2, ("a", "b"))
        assert (sample.running, sample.waiting) == (4, 6)
        assert (sample.num_blocks, sample.capacity_tokens) == (400, 25600)
        assert (sample.usage, sample.usage_max) == (0.875, 1.0)

    def test_a_kind_that_is_not_there_is_unknown(self):
        sample = scan(page('nv_trt_llm_request_metrics{request_type="max"} 512'))
        assert (sample.engine, sample.running, sample.waiting) == ("triton-trtllm", None, None)


def test_tgi_before_its_first_request_is_unknown():
    sample = scan(page("tgi_batch_max_total_tokens 74448"))
    assert (sample.engine, sample.running, sample.waiting) == ("tgi", None, None)
    assert (sample.usage, sample.capacity_tokens) == (None, 74448)
    assert "tgi_queue_size: not on the page" in sample.problems


def test_tgi_counts_failures_as_ended():
    sample = scan(page("tgi_request_success 5", 'tgi_request_failure{err="dropped"} 2'))
    assert sample.requests == 7
    assert scan(page("tgi_request_success 5")).requests == 5
    assert scan(page("tgi_request_success 5", "tgi_request_failure NaN")).requests is None


def test_llamacpp_prompt_tokens_include_the_cached():
    sample = scan(
        page("llamacpp:prompt_tokens_total 100", "llamacpp:prompt_tokens_cached_total 300")
    )
    assert (sample.prompt_tokens, sample.prefix_queries, sample.prefix_hits) == (400, 400, 300)


def test_lmdeploy():
    sample = scan(
        page(
            'lmdeploy:num_requests_running{engine="0",model_name="m"} 45',
            'lmdeploy:num_requests_waiting{engine="0",model_name="m"} 5',
            'lmdeploy:num_api_requests_waiting{engine="0",model_name="m"} 8',
            'lmdeploy:gpu_cache_usage_perc{engine="0",model_name="m"} 0.216',
        )
    )
    assert (sample.engine, sample.running, sample.waiting) == ("lmdeploy", 45, 5)
    assert (sample.usage, sample.capacity_tokens) == (0.216, None)


class TestGeneric:
    def test_its_numbers_are_taken_as_they_are(self):
        sample = scan(
            page(
                'running_requests{pool="a"} 2',
                'running_requests{pool="b"} 1',
                "pending_requests 4",
                "kv_cache_used_bytes 2.5e+09",
                "kv_cache_capacity_bytes 1e+10",
            )
        )
        assert (sample.engine, sample.running, sample.waiting) == ("generic", 3, 4)
        assert (sample.used_bytes, sample.capacity_bytes) == (2.5e9, 1e10)
        assert (sample.usage, sample.usage_max) == (0.25, 0.25)
        assert sample.problems == ()

    def test_more_used_than_fits_is_unknown(self):
        sample = scan(page("kv_cache_used_bytes 11", "kv_cache_capacity_bytes 10"))
        assert sample.usage is None
        assert "kv_cache_used_bytes: 11.0 is more than the capacity 10.0" in sample.problems

    def test_without_capacity_there_is_no_usage(self):
        assert scan(page("kv_cache_used_bytes 11")).usage is None
        assert scan(page("kv_cache_used_bytes 0", "kv_cache_capacity_bytes 0")).usage is None

    def test_bytes_stand_beside_an_engines_own_names(self):
        sample = scan(page(*LOAD, "kv_cache_used_bytes 5", "kv_cache_capacity_bytes 50"))
        assert (sample.engine, sample.usage) == ("sglang", 0.5)
        assert (sample.used_bytes, sample.capacity_bytes) == (5, 50)
        assert sample.problems == ()


class TestDetection:
    @pytest.mark.parametrize("content", [b"", b"\n", b"up 1\n", b"vllm:engine_sleep_state 1\n"])
    def test_a_page_of_no_engine_says_what_was_looked_for(self, content):
        sample = scan(content)
        assert sample.engine is None
        assert (sample.running, sample.waiting, sample.usage) == (None, None, None)
        (problem,) = sample.problems
        assert problem.startswith("UnsupportedEngine: ")
        assert "vllm:num_requests_running" in problem
        assert "sglang:num_running_reqs" in problem

    def test_of_two_engines_on_a_page_one_is_read_and_the_other_named(self):
        sample = scan(page("vllm:num_requests_running 1", *LOAD))
        assert (sample.engine, sample.running) == ("vllm", 1)
        assert "also on the page and not read: names of sglang" in sample.problems

    def test_an_engine_can_be_asked_for(self):
        content = page("vllm:num_requests_running 1", *LOAD)
        assert scan(content, "sglang").running == 3
        assert scan(content, "vllm").running == 1
        assert scan(content, "inference-sim").engine == "inference-sim"

    def test_an_engine_that_is_not_there_is_said_not_to_be(self):
        sample = scan(page(*LOAD), "tgi")
        assert sample.engine is None
        assert sample.problems == (
            "UnsupportedEngine: no metric of tgi is on the page, such as tgi_batch_current_size",
        )

    def test_an_engine_that_does_not_exist_is_said_not_to(self):
        (problem,) = scan(page(*LOAD), "vlm").problems
        assert problem.startswith("engine 'vlm' is not one of auto, vllm")

    def test_all_engines_have_a_name(self):
        assert set(ENGINES) == {
            "vllm", "inference-sim", "sglang", "tgi", "trtllm", "triton-trtllm",
            "llamacpp", "lmdeploy", "generic",
        }  # fmt: skip
