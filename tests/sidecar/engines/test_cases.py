"""What went wrong in the field with metrics pages must not go wrong here."""

import pytest

from cacheaware_sidecar.engines import rates, restarted, scan
from cacheaware_sidecar.state import kv_state


@pytest.fixture
def read(case):
    return lambda number, name: scan(case(number, name).encode())


def test_003_nan_and_infinity_are_unknown_and_nothing_else_is(read):
    nan, inf = read("003", "input.nan.prom"), read("003", "input.inf.prom")
    assert (nan.running, nan.waiting, nan.usage, nan.usage_max) == (4, 0, None, None)
    assert (inf.running, inf.waiting, inf.usage) == (4, None, 0.4)
    assert any(line.startswith("vllm:kv_cache_usage_perc: nan") for line in nan.problems)
    assert any(line.startswith("vllm:num_requests_waiting: inf") for line in inf.problems)


def test_004_an_idle_engine_has_known_zeros_and_no_latency(read):
    before, after = read("004", "input.t0.prom"), read("004", "input.t60.prom")
    assert (after.running, after.waiting, after.usage) == (0, 0, 0)
    assert (after.ttft.count, after.ttft.sum) == (2400, 812.5)
    result = rates(before, after, 60)
    assert result.prefix_hit_ratio is None
    assert result.prompt_tokens_per_request is None


@pytest.mark.parametrize(
    ("name", "engine", "load"),
    [
        ("sglang", "sglang", (12, 7, 0.91)),
        ("sglang-idle", "sglang", (0, 0, 0)),
        ("ray", "vllm", (12, 7, 0.91)),
        ("llamacpp", "llamacpp", (1, 7, 0.91)),
        ("tgi", "tgi", (12, 7, None)),
    ],
)
def test_007_every_dialect_is_read(read, name, engine, load):
    sample = read("007", f"input.{name}.prom")
    assert sample.engine == engine
    assert (sample.running, sample.waiting, sample.usage) == load


def test_020_the_info_without_a_model_name_is_joined_by_engine(read):
    sample = read("020", "input.prom")
    assert (sample.capacity_tokens, sample.num_blocks, sample.block_size) == (412384, 25774, 16)
    assert sample.used_tokens == pytest.approx(123715, abs=1)


def test_020_a_pool_not_yet_profiled_is_unknown(read):
    sample = read("020", "input.none.prom")
    assert (sample.capacity_tokens, sample.used_tokens, sample.num_blocks) == (None, None, None)
    assert (sample.running, sample.usage) == (5, 0.3)


def test_068_counters_that_restart_give_the_new_value(read):
    before, after = read("068", "input.t0.prom"), read("068", "input.t60.prom")
    assert restarted(before, after)
    result = rates(before, after, 60)
    assert result.preemptions_per_s == 3 / 60
    assert result.prefix_hit_ratio == 0.1


def test_084_without_a_config_capacity_is_in_tokens_and_bytes_are_unknown(read):
    sample = read("084", "input.live.prom")
    kv = kv_state(sample, None)
    assert kv.capacity_tokens == 412384
    assert (kv.capacity_bytes, kv.used_bytes, kv.page_bytes) == (None, None, None)
