"""More, less, parts of a trace."""

from collections import Counter
from functools import partial
from itertools import pairwise
from statistics import fmean, pstdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheaware_sim.traces.generate import generate
from cacheaware_sim.traces.reshape import between, jittered, scaled, split, stretched, thinned
from cacheaware_sim.traces.statistics import measure
from cacheaware_sim.traces.trace import TraceRequest


def trace(*times, client=0):
    return [TraceRequest(at, number + 1, 1, client) for number, at in enumerate(times)]


TIMES = st.lists(st.floats(0, 5000), max_size=60).map(lambda times: trace(*sorted(times)))


@settings(deadline=None)
@given(TIMES, st.integers(2, 5), st.floats(0, 5))
def test_scaled_gives_each_request_k_times_up_to_the_jitter_later_in_order(rows, k, jitter):
    found = list(scaled(rows, k, jitter_s=jitter))
    assert Counter(one.prompt_tokens for one in found) == {one.prompt_tokens: k for one in rows}
    assert [one.at for one in found] == sorted(one.at for one in found)
    was = {one.prompt_tokens: one.at for one in rows}
    assert all(0 <= one.at - was[one.prompt_tokens] <= jitter + 1e-9 for one in found)


@pytest.mark.parametrize("k", [0.3, 1.7, 2.25])
def test_a_fraction_is_the_probability_of_one_more(k):
    copies = Counter(one.prompt_tokens for one in scaled(trace(*range(4000)), k))
    assert copies.total() == pytest.approx(4000 * k, rel=0.05)
    assert set(copies.values()) <= {int(k), int(k) + 1}


def test_scaled_by_one_is_the_trace_and_jittered_is_another_run_of_it():
    rows = trace(0, 1, 1, 5)
    assert list(scaled(rows, 1)) == rows
    moved = list(jittered(rows, seed=1))
    assert sorted(one.prompt_tokens for one in moved) == [1, 2, 3, 4]
    assert moved != rows
    assert moved == list(jittered(rows, seed=1))
    assert moved != list(jittered(rows, seed=2))


def test_copies_keep_their_client_and_share_no_cache_with_their_original():
    rows = [TraceRequest(0, 64, 1, 7, (1, 2, 3, 4)), TraceRequest(9, 48, 1, 8, (1, 2, 9))]
    found = list(scaled(rows, 3))
    assert Counter(one.client for one in found) == {7: 3, 8: 3}
    firsts = Counter(one.prefix[:2] for one in found if one.prefix)
    assert sorted(firsts.values()) == [2, 2, 2], "each pair of copies shares as the pair did"
    assert measure(found).prefix_hit_percent == measure(rows).prefix_hit_percent


def test_scaled_holds_no_more_than_the_jitter_needs():
    taken = []

    def endless():
        at = 0.0
        while True:
            taken.append(at)
            yield TraceRequest(at, 1, 1)
            at += 0.5

    found = scaled(endless(), 3)
    for _ in range(300):
        last = next(found)
    assert taken[-1] <= last.at + 3


CLIENTS = sorted(
    [TraceRequest(600 * w + g, 1, 1, 1) for w in range(20) for g in range(0, 600, 60)]
    + [TraceRequest(600 * w + 300 + g / 10, 2, 1, 2) for w in range(20) for g in range(30)],
    key=lambda request: request.at,
)
"""A client that asks every minute, and one that sends 30 requests in 3 s every ten minutes."""


@pytest.mark.parametrize("factor", [0.5, 1.5, 2, 3])
def test_stretched_changes_every_clients_rate_by_the_factor_and_keeps_order(factor):
    found = list(stretched(CLIENTS, factor, seed=4))
    times = [one.at for one in found]
    counts = Counter(one.client for one in found)
    assert times == sorted(times)
    assert times[-1] <= 12_000
    assert counts[1] == pytest.approx(200 * factor, rel=0.05)
    assert counts[2] == pytest.approx(600 * factor, rel=0.35), "whole bursts, so it varies"


def test_stretched_keeps_the_burst_shape_that_thinning_loses():
    def inside_bursts(rows):
        times = [one.at for one in rows if one.client == 2]
        return [later - one for one, later in pairwise(times) if later - one < 2]

    half = inside_bursts(stretched(CLIENTS, 0.5, seed=1))
    assert fmean(half) == pytest.approx(0.2)
    assert pstdev(half) == pytest.approx(0, abs=1e-9), "still a beat, at half the speed"
    assert pstdev(inside_bursts(thinned(CLIENTS, 0.5, seed=1))) > 0.08


def test_stretched_keeps_the_variation_of_the_gaps_where_thinning_lowers_it():
    rows = list(generate("azure-code-like", 6 * 3600, seed=1))
    was, half = measure(rows), measure(stretched(rows, 0.5, seed=1))
    less = measure(thinned(rows, 0.5, seed=1))
    assert half.rate_per_s == pytest.approx(was.rate_per_s / 2, rel=0.1)
    assert less.rate_per_s == pytest.approx(was.rate_per_s / 2, rel=0.05)
    assert half.gap_cv == pytest.approx(was.gap_cv, rel=0.1)
    assert less.gap_cv < was.gap_cv * 0.85
    assert less.dispersion[10].iod == pytest.approx((1 + was.dispersion[10].iod) / 2, rel=0.1)


def test_stretched_keeps_what_changes_from_window_to_window():
    rows = trace(*(number / 2 for number in range(1200)), *range(1200, 1800, 60))
    found = list(stretched(rows, 2))
    assert sum(one.at < 600 for one in found) == pytest.approx(2400, abs=4)
    assert sum(600 <= one.at < 1200 for one in found) == 0
    assert sum(one.at >= 1200 for one in found) == pytest.approx(20, abs=2)


def test_stretched_names_the_blocks_of_later_rounds_anew():
    rows = [TraceRequest(at, 16, 1, 0, (at,)) for at in range(0, 600, 10)]
    names = Counter(one.prefix for one in stretched(rows, 2))
    assert max(names.values()) == 1


def test_stretched_by_one_is_the_trace():
    assert list(stretched(CLIENTS, 1)) == CLIENTS


@settings(deadline=None)
@given(TIMES, st.floats(0.1, 4), st.integers(0, 99))
def test_stretched_stays_inside_the_windows_and_in_order(rows, factor, seed):
    found = list(stretched(rows, factor, seed=seed))
    times = [one.at for one in found]
    assert times == sorted(times)
    assert {one.prompt_tokens for one in found} <= {one.prompt_tokens for one in rows}
    assert list(stretched(rows, factor, seed=seed)) == found


def test_thinned_keeps_that_share_and_moves_nothing():
    rows = trace(*range(4000))
    found = list(thinned(rows, 0.25, seed=1))
    assert len(found) == pytest.approx(1000, rel=0.1)
    assert set(found) <= set(rows)
    assert list(thinned(rows, 1)) == rows


def test_between_takes_its_part_and_begins_at_zero():
    assert [one[:2] for one in between(trace(0, 5, 6, 9, 10), 5, 10)] == [(0, 2), (1, 3), (4, 4)]


def test_between_reads_no_further_than_it_has_to():
    rows = iter(trace(*range(100)))
    assert len(list(between(rows, 0, 10))) == 10
    assert next(rows).at == 11


@settings(deadline=None)
@given(TIMES, st.floats(0.5, 6000))
def test_train_and_test_are_all_of_the_trace_and_share_nothing(rows, at):
    train, test = (list(part) for part in split(partial(iter, rows), at))
    assert [one.prompt_tokens for one in (*train, *test)] == [one.prompt_tokens for one in rows]
    assert all(0 <= one.at < at for one in train)
    assert all(one.at >= 0 for one in test)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: scaled([], 0), "scale 0: must be above 0 and at most 1,000"),
        (lambda: scaled([], float("nan")), "scale nan: must be above 0"),
        (lambda: scaled([], 1001), "scale 1001: must be above 0 and at most 1,000"),
        (lambda: scaled([], 2, jitter_s=-1), "jitter_s -1: must be a number of at least 0"),
        (lambda: stretched([], -1), "stretch factor -1: must be above 0"),
        (lambda: stretched([], 2, window_s=0), "window_s 0: must be above 0"),
        (lambda: thinned([], 1.5), "thinning probability 1.5: must be above 0 and at most 1"),
        (lambda: between([], 5, 5), "from 5, to 5: must be 0 <= from < to"),
        (lambda: split(list, 0), "split time 0: must be above 0"),
    ],
)
def test_a_reshaping_that_makes_no_sense_is_refused_at_once(call, problem):
    with pytest.raises(ValueError, match=problem):
        call()
