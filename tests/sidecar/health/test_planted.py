"""Each rule finds what is planted for it, and a healthy engine shows nothing."""

from dataclasses import replace

import pytest
from tests.sidecar.health.pages import fix, message, pair, severities, single

from cacheaware_sidecar.health import Looks, look

RANKS = """vllm:num_requests_running{{engine="0",model_name="m"}} 10
vllm:num_requests_running{{engine="1",model_name="m"}} 10
vllm:num_requests_running{{engine="2",model_name="m"}} 10
vllm:num_requests_waiting{{engine="0",model_name="m"}} 0
vllm:num_requests_waiting{{engine="1",model_name="m"}} {waiting}
vllm:num_requests_waiting{{engine="2",model_name="m"}} 1
vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} 0.3
vllm:kv_cache_usage_perc{{engine="1",model_name="m"}} {usage}
vllm:kv_cache_usage_perc{{engine="2",model_name="m"}} 0.4
"""
LARGE = {"block_size": "128", "num_gpu_blocks": "1250"}
FULL = {"kv_cache_usage_perc": 0.99, "num_requests_waiting": 6}
PLANTED = {
    "full at both looks while requests wait": (pair(FULL, FULL), "kv-full", "error"),
    "full now": (pair({}, {"kv_cache_usage_perc": 0.97}), "kv-full", "warning"),
    "fills within five minutes": (
        pair({"kv_cache_usage_perc": 0.6}, {"kv_cache_usage_perc": 0.8}), "kv-fills", "warning",
    ),
    "thrown back more often than ended": (
        pair({}, {"num_preemptions_total": 1240}), "preemption-storm", "error",
    ),
    "thrown back now and then": (
        pair({}, {"num_preemptions_total": 1008}), "preemption-normal", "info",
    ),
    "a queue of minutes": (pair({}, {"num_requests_waiting": 300}), "queue-long", "error"),
    "a queue of seconds": (pair({}, {"num_requests_waiting": 40}), "queue-long", "warning"),
    "hits collapsed": (
        pair({}, {"prefix_cache_hits_total": 4_502_000}), "prefix-hits-collapsed", "warning",
    ),
    "slots measured empty": (
        pair(extra=['vllm:kv_cache_token_usage_perc{engine="0"} 0.36']), "fragmentation", "warning",
    ),
    "short sequences": (
        pair({}, {"num_requests_running": 3000}), "fragmentation", "warning",
    ),
    "blocks larger than sequences": (
        pair({}, {"num_requests_running": 400}, info=LARGE), "block-size", "warning",
    ),
    "a block as large as a state": (
        pair(info={"block_size": "784", "num_gpu_blocks": "208"}), "block-size-of-state", "info",
    ),
    "NaN in logits": (pair({}, {"corrupted_requests_total": 7}), "corrupted-requests", "error"),
    "NaN in logits once": (
        single({"corrupted_requests_total": 7}), "corrupted-requests", "warning",
    ),
    "nobody counts NaN": (
        pair({"corrupted_requests_total": None}, {"corrupted_requests_total": None}),
        "corruption-not-measured", "info",
    ),
    "refused at the door": (
        pair({}, {"admission_rejections_total": 12}), "requests-rejected", "error",
    ),
    "no token in a minute": (
        pair({}, {"generation_tokens_total": 2_000_000, "prompt_tokens_total": 9_000_000}),
        "engine-stalled", "error",
    ),
    "another process": (
        pair({"process_start_time_seconds": 1.7e9}, {"process_start_time_seconds": 1.8e9}),
        "engine-restarted", "warning",
    ),
    "a percentage": (pair({}, {"kv_cache_usage_perc": 61.2}), "not-a-ratio", "warning"),
    "a full rank": (
        Looks(look(RANKS.format(waiting=0, usage=0.97).encode())), "rank-sick", "warning",
    ),
    "a rank with a queue": (
        Looks(look(RANKS.format(waiting=9, usage=0.5).encode())), "rank-sick", "warning",
    ),
    "a full tier": (
        pair(extra=["vllm:kv_offload_cpu_cache_usage_perc 1.0"]), "offload-tier-full", "info",
    ),
    "asleep": (
        pair(extra=['vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0.0']),
        "engine-sleeps", "info",
    ),
    "no usage": (
        pair({"kv_cache_usage_perc": None}, {"kv_cache_usage_perc": None}), "usage-unknown", "info",
    ),
    "no engine": (Looks(look(b"up 1\n")), "engine-unknown", "warning"),
}  # fmt: skip


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_found_with_its_severity(what):
    looks, id_, severity = PLANTED[what]
    assert severities(looks)[id_] == severity


def test_the_healthy_engine_is_silent():
    assert severities(pair()) == {}
    assert severities(single()) == {}


def test_a_total_since_the_start_of_the_engine_is_no_storm():
    assert severities(single({"num_preemptions_total": 1_000_000})) == {}


def test_a_storm_is_counted_by_the_requests_that_ended_where_enough_did():
    many_end = {"num_preemptions_total": 1300, "request_success_total": 14_000}
    assert severities(pair({}, many_end)) == {"preemption-normal": "info"}
    few_end = {"num_preemptions_total": 1300, "request_success_total": 10_003}
    assert "preemption-storm" in severities(pair({}, few_end))


def test_a_storm_says_what_it_costs_and_how_many_sequences_fit():
    looks = pair({}, {"num_preemptions_total": 1240})
    # 96,000 tokens in 20 sequences are 4,800 each; 4 a second are thrown back.
    assert "19,200 tokens a second are computed again" in message(looks, "preemption-storm")
    assert "--max-num-seqs of 145: the pool's 160,000 tokens hold no more of 1,100" in fix(
        looks, "preemption-storm"
    )


def test_without_the_time_between_the_looks_no_rate_is_made_up():
    looks = pair({}, {"num_preemptions_total": 1240, "kv_cache_usage_perc": 0.8}, seconds=None)
    assert "kv-fills" not in severities(looks)
    assert message(looks, "preemption-storm").startswith("240 preemptions, 2.4 for each")


def test_a_cache_that_is_nearly_full_at_two_looks_says_so_with_the_time():
    near = {"kv_cache_usage_perc": 0.92}
    assert "at both looks, 60 s apart" in message(pair(near, near), "kv-full")
    assert "one look does not tell for how long" in message(single(near), "kv-full")


def test_the_time_to_full_is_that_of_the_growth():
    looks = pair({"kv_cache_usage_perc": 0.6}, {"kv_cache_usage_perc": 0.8})
    assert "full in 60 s" in message(looks, "kv-fills")


def test_a_queue_is_judged_by_the_requests_that_end():
    # 100 in 60 s: 300 take 180 s.
    assert "the last one waits 180 s" in message(
        pair({}, {"num_requests_waiting": 300}), "queue-long"
    )
    fast = {"num_requests_waiting": 300, "request_success_total": 40_000}
    assert "queue-long" not in severities(pair({}, fast))


def test_one_look_judges_a_queue_by_the_time_that_requests_take():
    times = {"e2e_request_latency_seconds": [5.0] * 10, "request_queue_time_seconds": [1.0] * 10}
    looks = single({"num_requests_waiting": 300}, histograms=times)
    # 20 run for 4 s each: 5 end in a second.
    assert "the last one waits 60 s" in message(looks, "queue-long")


def test_reasons_for_waiting_are_named():
    reasons = ['vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 300']
    looks = pair({}, {"num_requests_waiting": 300}, extra=reasons)
    assert "(300 for capacity)" in message(looks, "queue-long")


def test_hits_of_few_tokens_or_of_an_engine_that_began_anew_are_no_collapse():
    few = {"prefix_cache_queries_total": 9_000_500, "prefix_cache_hits_total": 4_500_000}
    assert severities(pair({}, few)) == {}
    anew = {"prefix_cache_queries_total": 1000, "prefix_cache_hits_total": 100}
    assert severities(pair({}, anew)) == {"engine-restarted": "warning"}


def test_hits_before_of_few_tokens_are_no_baseline():
    before = {"prefix_cache_queries_total": 1, "prefix_cache_hits_total": 1}
    after = {"prefix_cache_queries_total": 90_001, "prefix_cache_hits_total": 2}
    assert severities(pair(before, after)) == {}
    before = {"prefix_cache_queries_total": 1000, "prefix_cache_hits_total": 1000}
    after = {"prefix_cache_queries_total": 91_000, "prefix_cache_hits_total": 1001}
    assert severities(pair(before, after)) == {"prefix-hits-collapsed": "warning"}


SAME = {"process_start_time_seconds": 1.7e9}


def test_a_counter_that_fell_alone_is_no_restart_and_what_it_gained_is_unknown():
    looks = pair(SAME, SAME | {"num_preemptions_total": 5})
    assert severities(looks) == {"counter-fell": "warning"}
    assert "preemptions fell from 1,000 to 5" in message(looks, "counter-fell")
    assert looks.grown("preemptions") is None
    assert looks.rates.preemptions_per_s is None
    assert looks.grown("requests") == 100
    assert looks.rates.requests_per_s == pytest.approx(100 / 60)


def test_several_counters_that_fell_or_one_of_an_unknown_start_are_a_restart():
    fell = {"num_preemptions_total": 5, "request_success_total": 5}
    assert "engine-restarted" in severities(pair(SAME, SAME | fell))
    assert "engine-restarted" in severities(pair({}, {"num_preemptions_total": 5}))


SGLANG = b"""# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m"} 3.0
sglang:token_usage{model_name="m"} 0.3
"""


@pytest.mark.parametrize(
    ("earlier", "said"),
    [
        (SGLANG, "is of sglang, the later of vllm"),
        (b"", "is of no known engine, the later of vllm"),
    ],
)
def test_pages_of_two_engines_are_no_restart_and_nothing_between_is_known(earlier, said):
    looks = replace(pair({}, {"corrupted_requests_total": 7}), before=look(earlier))
    assert severities(looks) == {"two-engines": "warning", "corrupted-requests": "warning"}
    assert said in message(looks, "two-engines")
    assert not looks.restarted
    assert looks.grown("requests") is None
    assert looks.rates.requests_per_s is None


def test_a_measured_occupancy_wins_over_the_estimate():
    extra = ['vllm:kv_cache_token_usage_perc{engine="0"} 0.59']
    assert severities(pair({}, {"num_requests_running": 3000}, extra=extra)) == {}


def test_the_advice_for_a_block_size_stays_within_the_kernels():
    sixteen = pair({}, {"num_requests_running": 3000})
    assert "--block-size" not in fix(sixteen, "fragmentation")
    large = pair(
        {}, {"num_requests_running": 400}, info={"block_size": "128", "num_gpu_blocks": "1250"}
    )
    assert "--block-size 16" in fix(large, "block-size")
    assert "need 64" in fix(large, "block-size")


def test_a_percentage_is_not_divided_by_a_hundred():
    looks = pair({}, {"kv_cache_usage_perc": 97.0})
    assert looks.sample.usage is None
    assert "kv-full" not in severities(looks)


def test_a_short_silence_is_no_stall():
    none = {"generation_tokens_total": 2_000_000, "prompt_tokens_total": 9_000_000}
    assert "engine-stalled" not in severities(pair({}, none, seconds=59.0))
    idle = {"num_requests_running": 0}
    assert "engine-stalled" not in severities(pair(idle, none | idle))


def test_an_engine_that_counts_tokens_when_a_request_ends_is_not_said_to_stall():
    page = b"sglang:num_running_reqs 3\nsglang:num_queue_reqs 0\nsglang:token_usage 0.3\n"
    page += b"sglang:generation_tokens_total 100\nsglang:prompt_tokens_total 100\n"
    assert severities(Looks(look(page), look(page), 600.0)) == {}
