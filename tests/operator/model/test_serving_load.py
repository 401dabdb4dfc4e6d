"""What a replica carries."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware.model.engine_speed import Speed
from cacheaware.model.serving_load import (
    COLD_START_S,
    Limit,
    Load,
    Point,
    best_point,
    first_token_s,
    need_of,
    point_at,
    rate_of,
    replicas_for,
    seconds_until_full,
    slowest,
    spare_for,
    token_s,
)

FAST = Speed(0.05, {1: 0.01, 1024: 0.01})
"""A prompt takes 50 ms, a step 10 ms, whatever its size."""
LOAD = Load(rate=4, prompt=1000, output=100)
AT_MOST = Point(batch=10, rate=2.0, ttft_s=1.0, tpot_s=0.1, limit=Limit.KV)


def test_a_step_lies_between_those_computed():
    speed = Speed(1, {1: 0.010, 5: 0.014, 9: 0.030})
    assert speed.step(3) == pytest.approx(0.012)
    assert speed.step(9) == 0.030
    assert Speed(1, {4: 0.02}).step(1) == 0.02
    assert Speed(1, {4: 0.02}).step(9) == 0.02


def test_prompts_of_others_slow_every_token():
    assert token_s(FAST, LOAD, 10) == pytest.approx(0.01 + 10 * 0.05 / 100)
    assert rate_of(FAST, LOAD, 10) == pytest.approx(10 / (100 * 0.015))


def test_a_first_token_waits_longer_the_fuller_the_queue():
    alone = 0.06
    assert first_token_s(FAST, 0, 1) == pytest.approx(alone)
    assert first_token_s(FAST, 0.05 / alone, 1) == pytest.approx(
        alone
    )  # nine of ten find nobody before them
    half = first_token_s(FAST, 0.5 / alone, 1)
    assert half == pytest.approx(alone + alone / (2 * 0.5) * math.log(0.5 / 0.1))
    assert first_token_s(FAST, 1.01 / alone, 1) == math.inf


def test_the_cache_limits_where_it_is_small():
    point = best_point(FAST, LOAD, slots=5, sequences=256)
    assert (point.batch, point.limit) == (4, Limit.KV)
    assert point.rate == rate_of(FAST, LOAD, 4)


def test_max_num_seqs_limits_where_the_cache_is_large():
    point = best_point(FAST, replace(LOAD, output=10_000), slots=10_000, sequences=8)
    assert (point.batch, point.limit) == (8, Limit.SEQUENCES)


def test_prefill_is_not_filled_beyond_its_share():
    point = best_point(FAST, LOAD, slots=10_000, sequences=1024)
    assert point.limit is Limit.PREFILL
    assert point.rate * 0.06 <= 0.8 < rate_of(FAST, LOAD, point.batch + 2) * 0.06


def test_targets_limit_before_the_cache_is_full():
    tight = best_point(FAST, replace(LOAD, tpot_s=0.0145), slots=1000, sequences=1024)
    assert (tight.batch, tight.limit) == (9, Limit.TPOT)
    first = best_point(FAST, replace(LOAD, ttft_s=0.065), slots=1000, sequences=1024)
    assert first.limit is Limit.TTFT
    assert (
        first.ttft_s
        <= 0.065
        < first_token_s(FAST, rate_of(FAST, LOAD, first.batch + 1), first.batch + 1)
    )


def test_a_target_that_one_request_misses_can_not_be_met():
    slow = replace(LOAD, tpot_s=0.001)
    assert best_point(FAST, slow, slots=100, sequences=100) is None
    assert slowest(FAST, slow) is Limit.TPOT
    assert slowest(FAST, LOAD) is None
    alone = replace(LOAD, ttft_s=0.01)
    assert best_point(FAST, alone, slots=1, sequences=100) is None
    assert slowest(FAST, alone) is Limit.TTFT


def test_requests_of_one_token_are_prompts_alone():
    point = best_point(FAST, replace(LOAD, output=1), slots=1000, sequences=256)
    assert (point.batch, point.limit) == (1, Limit.PREFILL)
    assert point.rate == pytest.approx(0.8 / 0.06)


def test_one_request_runs_even_where_it_fills_the_cache():
    assert best_point(FAST, LOAD, slots=1, sequences=256).batch == 1


SPEEDS = st.builds(
    lambda prefill, step, slope: Speed(prefill, {1: step, 1024: step + 1023 * slope}),
    st.floats(0.001, 2),
    st.floats(0.001, 0.2),
    st.floats(0, 0.001),
)
LOADS = st.builds(
    Load,
    st.just(1.0),
    st.integers(1, 50_000),
    st.integers(1, 5_000),
    st.none() | st.floats(0.01, 10),
    st.none() | st.floats(0.002, 1),
)


@given(SPEEDS, LOADS, st.integers(1, 5_000))
def test_a_point_keeps_every_limit(speed, load, slots):
    point = best_point(speed, load, slots, 1024)
    if point is None:
        assert slowest(speed, load)
        return
    assert 1 <= point.batch <= max(1, 0.8 * slots)
    assert point.rate > 0
    assert math.isfinite(point.ttft_s)
    assert point.rate * (speed.prefill_s + speed.step(point.batch)) <= 0.8 + 1e-9
    assert load.tpot_s is None or point.tpot_s <= load.tpot_s
    assert load.ttft_s is None or point.ttft_s <= load.ttft_s


def test_replicas_are_whole_and_never_none():
    assert replicas_for(0.1, 2.0) == 1
    assert replicas_for(4.0, 2.0) == 2
    assert replicas_for(4.1, 2.0) == 3


def test_a_replica_below_its_most_holds_fewer_requests():
    most = best_point(FAST, LOAD, slots=100, sequences=256)
    at = point_at(FAST, LOAD, most.rate / 2, most)
    assert at.batch < most.batch
    assert at.rate == most.rate / 2
    assert rate_of(FAST, LOAD, at.batch) >= at.rate > rate_of(FAST, LOAD, at.batch - 1)
    assert point_at(FAST, LOAD, most.rate, most).batch == most.batch


def test_the_need_names_each_resource():
    need = need_of(FAST, LOAD, 50, AT_MOST, AT_MOST)
    assert need.prefill == pytest.approx(4 * 0.05 / 0.8)
    assert need.kv == pytest.approx(4 * (1 + 99 * 0.1) / (0.8 * 50))
    assert need.together == 2.0


def burst(rate: float, tokens: int, load: Load = LOAD) -> float | None:
    return seconds_until_full(load, (AT_MOST, AT_MOST), 4, rate, tokens)


def test_a_burst_fills_the_faster_the_larger_it_is():
    assert burst(40, 30_000) < burst(20, 30_000)


def test_a_burst_that_the_replicas_carry_never_fills_them():
    assert burst(8, 10**6) is None
    assert burst(4, 20_000) is None


def test_a_burst_beyond_what_they_carry_piles_up():
    stay, half = AT_MOST.residence_s(100), 1050
    tokens = 10**6
    held = 20 / 4 * stay * half
    assert burst(20, tokens) == pytest.approx(stay + (tokens - held) / ((5 - 2) * half))


def test_caches_that_the_load_fills_are_full_at_once():
    assert burst(8, 100) == pytest.approx(AT_MOST.residence_s(100) / 50)


def test_the_spare_is_as_small_as_the_burst_allows():
    args = (LOAD, (AT_MOST, AT_MOST))
    spare = spare_for(*args, 2, 20, 30_000)
    assert 0 < spare < replicas_for(20, AT_MOST.rate) - 2 + 1
    assert (seconds_until_full(*args, 2 + spare - 1, 20, 30_000) or 0) < COLD_START_S[1]
    assert spare_for(*args, 10, 20, 30_000) == 0
    assert spare_for(*args, 2, 20, 10**9) == 0
    assert spare_for(*args, 2, 20, 1) == 8
