import math

import pytest

from cacheaware_sim.engine import Engine, NotAdmittedError
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.request import Phase, Request

PREFILL_ONLY = IterationCost(
    c0_ms=10, c1_ms_per_seq=1, c2_ms_per_ktok=100, a1_ms_per_ktok=1000, a2_ms_per_mtok2=0
)


def test_a_lone_request_takes_one_iteration_for_its_prompt_and_one_for_each_further_token(
    config, run
):
    engine = Engine(config())
    request = Request(1, 100, 5)

    end, _ = run(engine, [request])

    assert request.first_token_at == pytest.approx(0.010)
    assert request.finished_at == end == pytest.approx(0.050)
    assert (request.outcome, request.generated) == ("length", 5)


def test_a_request_for_one_token_ends_with_its_prompt(config, run):
    engine = Engine(config())
    request = Request(1, 100, 1, stops=True)

    end, results = run(engine, [request])

    assert end == pytest.approx(0.010)
    assert results[-1].first_tokens == results[-1].finished == [request]
    assert request.outcome == "stop"


def test_each_iteration_costs_its_decodes_their_contexts_and_its_chunks(config):
    engine = Engine(config(cost=PREFILL_ONLY))
    first, second = Request(1, 100, 10), Request(2, 50, 10)
    engine.submit(first, 0)

    durations = [engine.step(0).duration_s]
    durations.append(engine.step(1).duration_s)
    engine.submit(second, 1.5)
    durations.append(engine.step(2).duration_s)
    durations.append(engine.step(3).duration_s)

    assert durations == pytest.approx(
        [
            0.010 + 0.100,  # the prompt of 100 tokens
            0.010 + 0.001 + 0.0100,  # one decode over 100 tokens
            0.010 + 0.001 + 0.0101 + 0.050,  # over 101, beside a prompt of 50
            0.010 + 0.002 + 0.0152,  # two decodes over 102 + 50
        ]
    )


def test_a_long_prompt_is_cut_to_what_the_decodes_leave_of_the_budget(config):
    engine = Engine(config(max_num_batched_tokens=100, cost=PREFILL_ONLY))
    engine.submit(Request(1, 50, 20), 0)
    engine.step(0)
    engine.submit(Request(2, 250, 20), 0.5)

    results = [engine.step(now) for now in (1, 2, 3, 4)]

    first_tokens = [[request.id for request in result.first_tokens] for result in results]
    chunks = [0.099, 0.099, 0.052]
    contexts = [50, 51, 52]
    assert first_tokens == [[1], [], [], [2]]
    assert [result.duration_s for result in results[:3]] == pytest.approx(
        [0.010 + 0.001 + c / 1e4 + chunk for c, chunk in zip(contexts, chunks, strict=True)]
    )


def test_prompts_are_taken_first_come_first_served(config, run):
    engine = Engine(config(max_num_batched_tokens=100))

    _, results = run(engine, [Request(n, 90, 1) for n in (3, 1, 2)])

    order = [request.id for result in results for request in result.first_tokens]
    assert order == [3, 1, 2]


def test_no_more_than_max_num_seqs_run_at_once(config):
    engine = Engine(config(max_num_seqs=2))
    for number in range(3):
        engine.submit(Request(number, 10, 10), 0)

    engine.step(0)
    engine.step(1)

    snapshot = engine.snapshot()
    assert (snapshot.running, snapshot.waiting) == (2, 1)


def test_a_prompt_waits_until_all_of_it_fits(config):
    engine = Engine(config(max_num_batched_tokens=64))
    engine.submit(Request(1, 1000, 20), 0)
    engine.step(0)
    for number in (2, 3):
        engine.submit(Request(number, 1000, 20), 0)

    for now in range(1, 20):
        engine.step(now)

    assert [request.id for request in engine.running.values()] == [1]


def test_without_reserving_only_the_first_chunk_has_to_fit(config):
    engine = Engine(config(max_num_batched_tokens=64, reserve_full_prompt=False, num_blocks=34))
    engine.submit(Request(1, 900, 20), 0)
    for now in range(14):
        engine.step(now)
    engine.submit(Request(2, 1000, 20), 14)

    results = [engine.step(now) for now in range(14, 20)]

    assert engine.stats.preemptions > 0
    assert any(request.id == 2 for result in results for request in result.preempted)


def test_the_gauges_stand_still_while_an_iteration_runs(config):
    engine = Engine(config())
    engine.submit(Request(1, 10, 10), 0)
    before = engine.snapshot()

    engine.step(0)
    during = engine.snapshot()
    engine.step(0.01)

    assert (before.running, during.running, engine.snapshot().running) == (0, 0, 1)
    assert engine.snapshot().usage == pytest.approx(1 / 63)


def test_an_idle_engine_has_nothing_to_do(config):
    engine = Engine(config())

    assert engine.step(5).duration_s is None


def test_a_request_can_be_aborted_wherever_it_is(config, run):
    engine = Engine(config(max_num_batched_tokens=64, max_num_seqs=2))
    decoding, cut, waiting = Request(1, 10, 50), Request(2, 200, 50), Request(3, 10, 50)
    for request in (decoding, cut, waiting):
        engine.submit(request, 0)
    for now in range(3):
        engine.step(now)
    assert [decoding.phase, cut.phase, waiting.phase] == [
        Phase.DECODE,
        Phase.PREFILL,
        Phase.WAITING,
    ]

    for request in (decoding, cut, waiting):
        assert engine.abort(request, 2.5)
        assert not engine.abort(request, 2.5)

    assert engine.pool.in_use == 0
    assert (engine.snapshot().running, engine.snapshot().waiting) == (0, 0)
    assert engine.snapshot().outcomes["abort"] == 3
    assert run(engine, now=3)[0] == 3


def test_a_prompt_aborted_in_its_last_chunk_brings_no_token(config):
    engine = Engine(config())
    request = Request(1, 10, 5)
    engine.submit(request, 0)
    engine.step(0)
    engine.abort(request, 0.005)

    result = engine.step(0.01)

    assert (result.first_tokens, result.duration_s) == ([], None)


def test_a_decode_aborted_after_its_end_was_planned_leaves_no_trace(config, run):
    engine = Engine(config())
    gone, stays = Request(1, 10, 5), Request(2, 10, 5)
    engine.submit(gone, 0)
    engine.submit(stays, 0)
    engine.step(0)
    engine.step(0.01)
    engine.abort(gone, 0.015)

    run(engine, now=0.02)

    assert (gone.outcome, stays.outcome) == ("abort", "length")


def test_how_far_a_request_has_come_is_known_at_any_time(config):
    engine = Engine(config())
    request = Request(1, 10, 4)
    engine.submit(request, 0)

    seen = []
    for now in range(6):
        engine.step(now)
        seen.append(engine.generated(request))

    assert seen == [0, 1, 2, 3, 4, 4]


def test_nothing_is_admitted_before_the_cold_start_is_over(config):
    engine = Engine(config(cold_start_s=5), created_at=100)

    with pytest.raises(NotAdmittedError, match="loading"):
        engine.submit(Request(1, 10, 10), 104.9)
    engine.submit(Request(1, 10, 10), 105)


@pytest.mark.parametrize(
    ("prompt", "output", "message"),
    [
        pytest.param(0, 1, "at least one prompt", id="no prompt"),
        pytest.param(1, 0, "at least one prompt and one output", id="no output"),
        pytest.param(1000, 25, "1000 prompt and 25 output tokens: at most 1024", id="too long"),
    ],
)
def test_a_request_that_can_never_run_is_refused(config, prompt, output, message):
    with pytest.raises(ValueError, match=message):
        Engine(config()).submit(Request(1, prompt, output), 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_blocks": 1}, "num_blocks 1: must be at least 2"),
        ({"block_size": 0}, "block_size 0: must be at least 1"),
        ({"max_model_len": 2017}, r"max_model_len 2017: the KV pool holds 2016 tokens"),
        ({"max_num_seqs": 4096}, "max_num_batched_tokens 2048: must be at least max_num_seqs"),
        ({"cold_start_s": -1}, "cold_start_s -1: must be at least 0"),
        ({"cold_start_s": math.nan}, "cold_start_s nan: must be at least 0"),
        ({"stalls_s": {"prefill": -1}}, "first_shape_stall_s -1: must be at least 0"),
    ],
)
def test_absurd_settings_are_refused(config, changes, message):
    with pytest.raises(ValueError, match=message):
        config(**changes)


def test_an_engine_keeps_nothing_of_the_requests_that_have_gone(config, run):
    engine, now = Engine(config()), 0.0
    for number in range(300):
        now, _ = run(engine, [Request(number, 700, 300), Request(-number, 700, 300)], now)

    assert engine.stats.preemptions > 0
    assert not engine.running
    assert not engine._decodes._ends
    assert not any(engine._decodes._growing)
    assert not engine.pool._pinned
    assert engine.pool.cached <= 63
