import pytest

from cacheaware_sim.engine import Engine
from cacheaware_sim.histogram import Observations
from cacheaware_sim.request import Request


def test_a_value_equal_to_a_bound_belongs_below_it():
    observations = Observations((1.0, 2.0))
    for value in (1.0, 1.5, 2.0, 3.0):
        observations.observe(value)

    frozen = observations.frozen()

    assert frozen.buckets == ((1.0, 1.0), (2.0, 3.0), (float("inf"), 4.0))
    assert (frozen.count, frozen.sum) == (4, 7.5)


def test_many_equal_values_are_one_observation_with_a_weight():
    observations = Observations((1.0,))
    observations.observe(0.5, 10)

    assert (observations.frozen().count, observations.frozen().sum) == (10, 5.0)


def test_what_a_request_leaves_behind(config, run):
    engine = Engine(config(max_num_seqs=1))

    run(engine, [Request(1, 100, 5), Request(2, 50, 3)])

    snapshot = engine.snapshot()
    sums = {name: (one.count, round(one.sum, 6)) for name, one in snapshot.histograms.items()}
    assert snapshot.counters["prompt_tokens"] == 150
    assert snapshot.counters["generation_tokens"] == 8
    assert snapshot.outcomes["length"] == 2
    assert sums["request_prompt_tokens"] == (2, 150)
    assert sums["request_generation_tokens"] == (2, 8)
    assert sums["time_to_first_token_seconds"] == (2, 0.07)
    assert sums["inter_token_latency_seconds"] == (6, 0.06)
    assert sums["request_queue_time_seconds"] == (2, 0.05)
    assert sums["request_prefill_time_seconds"] == (2, 0.02)
    assert sums["request_decode_time_seconds"] == (2, 0.06)
    assert sums["request_inference_time_seconds"] == (2, 0.08)
    assert sums["e2e_request_latency_seconds"] == (2, 0.13)
    assert sums["request_time_per_output_token_seconds"] == (2, 0.02)
    assert sums["iteration_tokens_total"] == (8, 158)
    assert sums["request_prefill_kv_computed_tokens"] == (2, 150)


def test_a_request_that_never_ran_has_no_times_but_its_end(config):
    engine = Engine(config(max_num_seqs=1))
    engine.submit(Request(1, 100, 5), 0)
    engine.step(0)
    waiting = Request(2, 100, 5)
    engine.submit(waiting, 0.001)
    engine.abort(waiting, 0.5)

    histograms = engine.snapshot().histograms

    assert histograms["e2e_request_latency_seconds"].count == 1
    assert histograms["request_queue_time_seconds"].count == 0


def test_the_gap_that_a_preemption_tears_counts_as_one_between_two_tokens(config, run):
    engine = Engine(config(num_blocks=5, max_model_len=128))

    run(engine, [Request(1, 60, 10), Request(2, 60, 40)])

    gaps = engine.snapshot().histograms["inter_token_latency_seconds"]
    assert gaps.count == 10 + 40 - 2
    assert gaps.sum == pytest.approx(0.09 + 0.39 + 0.05, abs=0.03)
