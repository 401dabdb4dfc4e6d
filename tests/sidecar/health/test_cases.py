"""Field cases and public pages: what was right there."""

import pytest

from cacheaware_sidecar.health import ERROR, Looks, examine, look
from cacheaware_sidecar.health.blocks import waste_of
from cacheaware_sidecar.health.looks import sequences_that_fit
from cacheaware_sidecar.health.pressure import is_storm


@pytest.fixture
def looks(case):
    def pair(number, before, after, seconds=60.0):
        first, second = (
            look(case(number, f"input.{one}.prom").encode()) for one in (before, after)
        )
        return Looks(second, first, seconds)

    return pair


def ids(looks):
    return {one.id for one in examine(looks)}


def test_no_public_page_shows_an_error_but_the_one_with_a_queue_of_thousands(shared):
    found = {
        path.name: [
            one.id for one in examine(Looks(look(path.read_bytes()))) if one.severity == ERROR
        ]
        for path in (shared / "data" / "metrics").glob("*.prom")
    }
    assert len(found) == 25
    assert found.pop("sglang-0.4-docs-verbatim.prom") == ["queue-long"]
    assert not any(found.values())


def test_blocks_of_17_tokens_are_half_empty_though_the_gauge_reads_two_thirds(case):
    given, right = case("065", "input.json"), case("065", "expect.json")
    page = (
        f'vllm:num_requests_running{{engine="0"}} {given["sequences"]["count"]}\n'
        f'vllm:kv_cache_usage_perc{{engine="0"}} {given["kv_cache_usage_perc"]}\n'
        f'vllm:cache_config_info{{engine="0",block_size="{given["blockSize"]}",'
        f'num_gpu_blocks="{given["numGpuBlocks"]}"}} 1\n'
    )
    told = f'vllm:kv_cache_token_usage_perc{{engine="0"}} {right["pool_token_use"]}\n'
    bounds = waste_of(Looks(look(page.encode())))
    assert not bounds.measured
    assert bounds.least <= right["fragmentation"] <= bounds.most + 0.001  # the gauge is rounded
    measured = waste_of(Looks(look((page + told).encode())))
    assert measured.measured
    assert measured.expected == pytest.approx(right["fragmentation"], abs=0.001)
    assert 1 - measured.expected == pytest.approx(right["occupancy"], abs=0.001)


def test_the_bounds_of_a_page_hold_the_true_fragmentation():
    page = (
        b'vllm:num_requests_running{engine="0"} 333\n'
        b'vllm:kv_cache_usage_perc{engine="0"} 0.666\n'
        b'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="1000"} 1\n'
    )
    waste = waste_of(Looks(look(page)))
    assert not waste.measured
    assert waste.least <= 1 - 17 / 32 <= waste.most + 1e-9
    assert waste.most == pytest.approx(333 * 15 / 10656)
    assert waste.expected == pytest.approx(waste.most / 2)


def test_a_preemption_storm_is_told_from_ordinary_preemptions(case, looks):
    right = case("067", "expect.json")
    assert is_storm(looks("067", "storm.t0", "storm.t60")) is right["storm"]
    told = next(
        one
        for one in examine(looks("067", "storm.t0", "storm.t60"))
        if one.id == "preemption-storm"
    )
    assert "4 a second), 3.3 a minute for each that runs" in told.message
    normal = case("067", "input.normal.json")
    page = (
        "vllm:num_requests_running 60\nvllm:kv_cache_usage_perc {}\nvllm:num_preemptions_total {}\n"
    )
    page += "vllm:request_success_total {}\n"
    hour = Looks(
        look(page.format(normal["kv"], normal["preemptions"], normal["requests"]).encode()),
        look(page.format(normal["kv"], 0, 0).encode()),
        normal["durationSeconds"],
    )
    assert is_storm(hour) is right["normal"]
    assert "preemption-normal" in ids(hour)


def test_so_many_sequences_fit_into_the_pool_of_the_storm(case):
    pool = case("067", "input.pool.json")
    fit = sequences_that_fit(pool["kvTokens"], pool["avgTokensPerRequest"])
    assert fit == case("067", "expect.json")["suggest_max_num_seqs"]


def test_a_restart_is_neither_a_storm_nor_a_collapse(case, looks):
    pair, right = looks("068", "t0", "t60"), case("068", "expect.json")
    assert pair.grown("preemptions") in right["preemption_delta"]
    assert round(pair.rates.prefix_hit_ratio, 2) in right["hit_rate"]
    assert "engine-restarted" in ids(pair)
    assert not ids(pair) & {"preemption-storm", "prefix-hits-collapsed"}


def test_corrupted_logits_are_an_alarm_and_their_absence_is_not_health(case, looks):
    bad = next(one for one in examine(looks("070", "bad.t0", "bad.t60")) if one.severity == ERROR)
    assert bad.id == "corrupted-requests"
    assert "7 requests with NaN in their logits in 60 s" in bad.message
    assert "More replicas don't help" in bad.fix
    off = Looks(look(case("070", "input.off.prom").encode()))
    assert "corruption-not-measured" in ids(off)
    assert "corrupted-requests" not in ids(off)
