"""Why slow requests are slow: each cause found where it is planted, ruled out or left open else."""

import pytest
from tests.sidecar.health.pages import AFTER, BEFORE, page

from cacheaware.doctor.kv_health import health
from cacheaware.doctor.tail_latency import Case, State, judge, tail_of
from cacheaware_sidecar.health import Looks, look

SLOW = [0.04] * 190 + [4.0] * 10
"""First tokens: one in twenty takes a hundred times as long."""


def looks(before=None, after=None, *, seconds=60.0, **histograms):
    """A healthy pair whose histograms gained these values; first tokens have a tail."""
    gained = {"time_to_first_token_seconds": SLOW} | histograms
    first = page(BEFORE | (before or {}), histograms={name: [] for name in gained})
    return Looks(
        look(page(AFTER | (after or {}), histograms=gained)), look(first), seconds
    )  # fmt: skip


def judged(case, id_):
    return next(one for one in judge(case) if one.id == id_)


QUEUE, PREFILL = "request_queue_time_seconds", "request_prefill_time_seconds"
TOKENS, STEPS = "inter_token_latency_seconds", "iteration_tokens_total"
UNEVEN = [0.01] * 180 + [0.5] * 20
PLANTED = {
    "queueing": looks(**{QUEUE: [0.02] * 190 + [3.5] * 10}),
    "kv-starvation": looks({}, {"kv_cache_usage_perc": 0.99, "num_requests_waiting": 5}),
    "prefill-interference": looks(**{TOKENS: UNEVEN, STEPS: [64.0] * 150 + [8000.0] * 50}),
    "cold-shapes": looks({"request_success_total": 10}, {"request_success_total": 210}),
    "cpu-bound-tokenizer": looks(
        {}, {"process_cpu_seconds_total": 558}, **{QUEUE: [0.0] * 200, PREFILL: [0.03] * 200}
    ),
    "recompute-storm": looks({}, {"num_preemptions_total": 1300}),
    "attention": looks({}, {"corrupted_requests_total": 3}),
}


@pytest.mark.parametrize("id_", PLANTED)
def test_the_planted_cause_is_found_and_says_what_to_do(id_):
    found = judged(Case(PLANTED[id_]), id_)
    assert found.state is State.CAUSE
    assert found.evidence
    assert found.fix


@pytest.mark.parametrize("id_", PLANTED)
def test_a_planted_cause_makes_no_other_one(id_):
    causes = {one.id for one in judge(Case(PLANTED[id_])) if one.state is State.CAUSE}
    assert causes == {id_}


def test_what_speaks_against_the_plain_causes_rules_them_out():
    healthy = looks(**{
        QUEUE: [0.0] * 200, PREFILL: [0.2] * 200, TOKENS: [0.01] * 200,
    })  # fmt: skip
    states = {one.id: one.state for one in judge(Case(healthy))}
    out = {id_ for id_, state in states.items() if state is State.RULED_OUT}
    assert out == {
        "queueing", "kv-starvation", "prefill-interference", "cold-shapes",
        "cpu-bound-tokenizer", "recompute-storm",
    }  # fmt: skip
    assert {id_ for id_, state in states.items() if state is State.OPEN} == {
        "slow-node", "attention", "positions",
    }  # fmt: skip


def test_a_young_engine_whose_requests_queue_is_not_called_cold():
    young = {"request_success_total": 10}, {"request_success_total": 210}
    queue = Case(looks(*young, **{QUEUE: [0.02] * 190 + [3.5] * 10}))
    assert judged(queue, "queueing").state is State.CAUSE
    assert judged(queue, "cold-shapes").state is State.OPEN


ABORTED = {
    QUEUE: [0.0] * 200,
    PREFILL: [60_000.0] * 200,
    "e2e_request_latency_seconds": [6.0] * 200,
}
"""Requests that were aborted while they waited, as vLLM counts them after a pause."""


def test_times_of_requests_that_were_aborted_while_they_waited_rule_nothing_out():
    busy = {"process_cpu_seconds_total": 558}
    aborted = Case(looks({}, busy, **ABORTED))
    for id_ in ("queueing", "cpu-bound-tokenizer"):
        found = judged(aborted, id_)
        assert found.state is State.OPEN
        assert "aborted" in found.evidence
    queue = Case(looks({}, busy | {"num_requests_waiting": 500}, **ABORTED))
    assert judged(queue, "queueing").state is State.CAUSE


def test_without_a_tail_nothing_is_judged():
    assert judge(Case(looks(time_to_first_token_seconds=[0.04] * 200))) == []
    assert judge(Case(looks(time_to_first_token_seconds=[4.0] * 5))) == []


def test_a_quantile_in_the_open_bucket_is_told_as_at_least():
    tail = tail_of(looks(time_to_first_token_seconds=[0.04] * 100 + [60.0] * 100))
    assert tail.ttft_p99 == 10.0
    assert tail.beyond == ("ttft_p99",)


def pod(seconds_a_token, **numbers):
    return looks({}, numbers, **{TOKENS: [seconds_a_token] * 200})


def test_one_slow_pod_of_three_is_named_and_the_others_are_not():
    pods = {"a": pod(0.012), "b": pod(0.013), "c": pod(0.2)}
    case = Case(pods["c"], (pods["a"], pods["b"]))
    assert judged(case, "slow-node").state is State.CAUSE
    assert judged(Case(pods["a"], (pods["b"], pods["c"])), "slow-node").state is State.RULED_OUT
    assert [(one.id, one.subject) for one in health(pods) if one.id == "pod-sick"] == [
        ("pod-sick", "c")
    ]


def test_of_two_pods_nobody_can_say_which_is_the_odd_one():
    pods = {"a": pod(0.012), "b": pod(0.2)}
    assert [one for one in health(pods) if one.id == "pod-sick"] == []
    assert judged(Case(pods["b"], (pods["a"],)), "slow-node").state is State.OPEN


def test_a_full_pod_or_a_queue_among_pods_with_room_is_named():
    pods = {name: pod(0.01, kv_cache_usage_perc=0.3) for name in "ab"}
    full = pods | {"c": pod(0.01, kv_cache_usage_perc=0.97)}
    assert [one.subject for one in health(full) if one.id == "pod-sick"] == ["c"]
    queue = pods | {"c": pod(0.01, num_requests_waiting=20)}
    assert [one.subject for one in health(queue) if one.id == "pod-sick"] == ["c"]


def test_one_corrupted_pod_of_ten_is_not_averaged_away():
    pods = {str(number): pod(0.01) for number in range(9)}
    pods["bad"] = pod(0.01, corrupted_requests_total=7)
    errors = [one for one in health(pods) if one.severity == "error"]
    assert [(one.id, one.subject) for one in errors] == [("corrupted-requests", "bad")]


def test_a_stored_probe_and_a_counter_of_nan_are_one_cause():
    case = Case(PLANTED["attention"], attention=("entropy of layer 3 is NaN",))
    found = [one for one in judge(case) if one.id == "attention"]
    assert len(found) == 1
    assert "entropy of layer 3 is NaN; 3 requests with NaN" in found[0].evidence
    clean = Case(PLANTED["queueing"], attention=())
    assert judged(clean, "attention").state is State.RULED_OUT


def test_positions_are_compared_by_the_hashes_of_two_pods():
    same = Case(PLANTED["queueing"], rope={"a": "77", "b": "77"})
    assert judged(same, "positions").state is State.RULED_OUT
    other = Case(PLANTED["queueing"], rope={"a": "77", "b": "78"})
    assert judged(other, "positions").state is State.CAUSE
    assert judged(Case(PLANTED["queueing"], rope={"a": "77"}), "positions").state is State.OPEN
