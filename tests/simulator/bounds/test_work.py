from dataclasses import replace

import pytest

from cacheaware_sim.bounds.work import Job, curves_of, jobs_of
from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.policies.constant import load_curve
from cacheaware_sim.traces.trace import TraceRequest

TARGETS = LatencyTargets(ttft_s=1.0, tpot_s=0.1)


def jobs(*requests, caching=True):
    trace = [TraceRequest(0.0, tokens, 1, prefix=prefix) for tokens, prefix in requests]
    return [job.cached_tokens for job in jobs_of(trace, 16, caching=caching)]


@pytest.mark.parametrize(
    ("requests", "cached"),
    [
        pytest.param([(40, (1, 2)), (40, (1, 2))], [0, 32], id="the same again"),
        pytest.param([(40, (1, 2)), (60, (1, 2, 3))], [0, 32], id="longer"),
        pytest.param([(40, (1, 2)), (40, (1, 9)), (40, (1, 9))], [0, 16, 32], id="a branch"),
        pytest.param([(40, (1, 2)), (40, (9, 2))], [0, 0], id="only what leads a prompt"),
        pytest.param([(32, (1, 2)), (32, (1, 2))], [0, 31], id="never the whole prompt"),
        pytest.param([(40, None), (40, ())], [0, 0], id="nothing known"),
    ],
)
def test_at_best_no_block_is_computed_twice(requests, cached):
    assert jobs(*requests) == cached
    assert jobs(*requests, caching=False) == [0] * len(requests)


def test_work_is_booked_when_it_comes_and_when_it_is_due(profile):
    # 1,000 tokens are 50 ms; due 1 s + 1 x 0.1 s after they come
    work = curves_of([Job(at, 1000, 1) for at in (1.0, 4.0, 14.0)], profile, TARGETS, 5.0)

    assert work.arrived == pytest.approx([0.1, 0, 0.05])
    assert work.due == pytest.approx([0.05, 0.05, 0])


def test_what_is_due_when_nothing_is_paid_any_more_is_left_out(profile):
    # 400 answer tokens may take 41 s; the last request comes in the sixth bin
    work = curves_of([Job(0.0, 1000, 400), Job(27.0, 1000, 1)], profile, TARGETS, 5.0)
    assert work.due == (0, 0, 0, 0, 0, 0)

    work = curves_of([Job(0.0, 1000, 400), Job(45.0, 1000, 1)], profile, TARGETS, 5.0)
    assert [at for at, due in enumerate(work.due) if due] == [8]


def test_an_answer_shares_its_iterations_with_the_largest_batch(profile):
    # 100 steps of 0.1 ms and a hundredth of 10 ms each, after 50 ms
    (arrived,) = curves_of([Job(0.0, 1000, 101)], profile, TARGETS, 5.0).arrived

    assert arrived == pytest.approx(0.05 + 100 * (0.1 + 10 / 100) / 1000)


def test_what_is_cached_is_no_work(profile):
    (arrived,) = curves_of([Job(0.0, 1000, 1, 600)], profile, TARGETS, 5.0).arrived

    assert arrived == pytest.approx(0.02)


def test_what_is_cached_takes_no_room_from_the_largest_batch(profile):
    # of 10,000 tokens a batch holds 9.5 requests of 1,050.5, or 28.5 with 700 of each in the cache
    small = replace(profile, num_blocks=625)
    alone, shared = (
        sum(curves_of([Job(0.0, 1000, 101, cached)], small, TARGETS, 5.0).arrived)
        for cached in (0, 700)
    )

    assert alone == pytest.approx(0.05 + 100 * (0.1 + 10 / (10_000 / 1050.5)) / 1000)
    assert shared == pytest.approx(0.015 + 100 * (0.1 + 10 / (10_000 / 350.5)) / 1000)


def test_it_is_the_work_that_static_policies_are_made_of(profile):
    demand = [(0.5 * n, 100 + 37 * n, 1 + n % 90) for n in range(100)]
    work = curves_of([Job(*one) for one in demand], profile, TARGETS, 5.0)

    load = load_curve(demand, profile, TARGETS, 5.0)
    assert [each / 5.0 for each in work.arrived] == pytest.approx(load)
