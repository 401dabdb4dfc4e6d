"""Load scenarios of two benchmark tools become traces."""

import sys
from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from cacheaware_sim.traces.formats import open_trace
from cacheaware_sim.traces.lengths import Lognormal
from cacheaware_sim.traces.randomness import stream
from cacheaware_sim.traces.trace import TraceError
from cacheaware_sim.traces.wva import read_wva

GUIDELLM = """# a comment
target: http://nowhere
profile: poisson
rate: 20
max_seconds: 600
data:
  prompt_tokens: 4000
  output_tokens: 1000
"""
STAGES = """
load:
  type: constant
  stages:
  - rate: 15
    duration: 180
  - rate: 0
    duration: 20
  - {rate: 2.5, duration: 120}
data:
  type: random
  input_distribution: {min: 500, max: 1500, mean: 1000, std_dev: 200, total_count: 5}
  output_distribution: {min: 10, max: 20}
"""


def test_guidellms_poisson_is_memoryless_at_its_rate(written):
    requests = list(open_trace(written(GUIDELLM)))
    gaps = [later.at - one.at for one, later in pairwise(requests)]
    assert len(requests) == pytest.approx(12_000, rel=0.03)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(1, rel=0.03)
    assert requests[-1].at < 600
    assert {one[1:3] for one in requests} == {(4000, 1000)}


def test_guidellms_constant_is_evenly_spaced(written):
    text = GUIDELLM.replace("poisson", "constant").replace("600", "0.5")
    times = [one.at for one in open_trace(written(text))]
    assert times == pytest.approx([number / 20 for number in range(10)])


def test_guidellms_list_of_rates_is_run_one_after_the_other(written):
    text = GUIDELLM.replace("rate: 20", "rate: [2, 8]").replace("poisson", "constant")
    times = [one.at for one in open_trace(written(text))]
    assert (sum(at < 600 for at in times), len(times)) == (1200, 6000)


@pytest.mark.parametrize(
    ("extra", "least", "most"),
    [
        pytest.param("prompt_tokens_min: 3000", 3000, 4000, id="from a minimum to the value"),
        pytest.param("prompt_tokens_max: 5000", 4000, 5000, id="from the value to a maximum"),
        pytest.param("prompt_tokens_stdev: 500", 2000, 6500, id="normal"),
        pytest.param(
            "prompt_tokens_stdev: 500\n  prompt_tokens_min: 3900\n  prompt_tokens_max: 4100",
            3900,
            4100,
            id="normal, clipped",
        ),
    ],
)
def test_guidellms_prompts_may_have_a_range(written, extra, least, most):
    tokens = [one.prompt_tokens for one in open_trace(written(f"{GUIDELLM}  {extra}\n"))]
    assert least <= min(tokens) < max(tokens) <= most


def test_stages_follow_each_other_and_hold_exactly_their_requests(written):
    requests = list(open_trace(written(STAGES)))
    times = [one.at for one in requests]
    assert times == sorted(times)
    assert (sum(at < 180 for at in times), sum(at >= 200 for at in times)) == (2700, 300)
    assert len(times) == 3000
    assert times[-1] < 320


def test_counted_arrivals_are_uniform_in_their_stage(written):
    times = [one.at for one in open_trace(written(STAGES)) if one.at < 180]
    for part in range(6):
        share = sum(30 * part <= at < 30 * part + 30 for at in times)
        assert share == pytest.approx(450, abs=75)


def test_a_poisson_stage_draws_its_number_of_requests(written):
    requests = list(open_trace(written(STAGES.replace("constant", "poisson"))))
    assert len(requests) != 3000
    assert len(requests) == pytest.approx(3000, rel=0.1)


def test_lengths_are_normal_with_a_mean_and_uniform_without(written):
    requests = list(open_trace(written(STAGES)))
    prompts = [one.prompt_tokens for one in requests]
    assert fmean(prompts) == pytest.approx(1000, rel=0.02)
    assert pstdev(prompts) == pytest.approx(195, rel=0.06)
    assert (min(prompts), max(prompts)) == (500, 1500), "what lies outside is put onto the ends"
    assert {one.output_tokens for one in requests} == set(range(10, 21))


def test_a_mean_without_a_deviation_is_a_fixed_length(written):
    text = STAGES.replace("std_dev: 200, ", "")
    assert {one.prompt_tokens for one in open_trace(written(text))} == {1000}


def test_sharegpt_is_stood_in_for_inside_the_files_ranges(written):
    text = STAGES.replace("type: random", "type: shareGPT").replace("max: 20", "max: 1024")
    requests = list(open_trace(written(text.replace("min: 500, max: 1500", "min: 10, max: 2048"))))
    assert fmean(one.prompt_tokens for one in requests) == pytest.approx(161, rel=0.1)
    assert min(one.output_tokens for one in requests) >= 10
    assert max(one.output_tokens for one in requests) <= 1024


def test_a_range_that_a_distribution_hardly_meets_ends_at_its_nearer_end():
    rng = stream(0, "test")
    assert Lognormal(100, 0.01, 500, 600).draw(rng) == 500
    assert Lognormal(100, 0.01, 5, 6).draw(rng) == 6


def test_another_seed_is_another_run_and_the_same_one_the_same(written):
    path = written(STAGES)
    first = list(open_trace(path, seed=1))
    assert first == list(open_trace(path, seed=1))
    assert first != list(open_trace(path, seed=2))


NUMBER = "must be a number from"
WHOLE = "must be a whole number from 1 to 10,000,000"


@pytest.mark.parametrize(
    ("text", "old", "new", "problem"),
    [
        (GUIDELLM, "rate: 20", "rate: -1", f":4: rate -1: {NUMBER} 0 to 100,000"),
        (GUIDELLM, "rate: 20", "rate: .nan", f":4: rate nan: {NUMBER} 0 to 100,000"),
        (GUIDELLM, "rate: 20", "rate: fast", f":4: rate 'fast': {NUMBER} 0 to 100,000"),
        (GUIDELLM, "rate: 20", "rate: []", f":4: rate []: {NUMBER} 0 to 100,000"),
        (GUIDELLM, "rate: 20", "", f":1: rate None: {NUMBER} 0 to 100,000"),
        (GUIDELLM, "rate: 20", "rate: 0", ": holds no requests: must hold a rate above 0"),
        (GUIDELLM, "poisson", "sweep", ":3: profile 'sweep': must be one of poisson, constant"),
        (GUIDELLM, "600", ".inf", f":5: max_seconds inf: {NUMBER} 0.001 to 31,622,400"),
        (GUIDELLM, "4000", "0", f":7: data.prompt_tokens 0: {WHOLE}"),
        (GUIDELLM, "4000", "1.5", f":7: data.prompt_tokens 1.5: {WHOLE}"),
        (GUIDELLM, "4000", "4000\n  prompt_tokens_min: 5000", ":8: data.prompt_tokens_min 5000"),
        (GUIDELLM, "data:", "data: 7\nother:", ":6: data 7: must be a mapping"),
        (GUIDELLM, "profile", "profil", ":1: keys 'target, profil, rate, max_seconds, data'"),
        (GUIDELLM, "rate: 20", "rate: [", ":6: is no YAML: expected"),
        (GUIDELLM, "rate: 20", "profile: constant", ":4: is no YAML: found duplicate key"),
        (STAGES, "rate: 15", "rate: x", f":5: load.stages[0].rate 'x': {NUMBER} 0 to 100,000"),
        (STAGES, "180", "0", f":6: load.stages[0].duration 0: {NUMBER} 0.001"),
        (STAGES, "- {rate: 2.5, duration: 120}", "- 7", ":5: load.stages 7: must be a list of"),
        (STAGES, "type: random", "type: x", ":11: data.type 'x': must be one of random"),
        (STAGES, "mean: 1000", "mean: 9", ":12: data.input_distribution.mean 9: must be"),
        (STAGES, "min: 10", "min: 30", ":13: data.output_distribution.min 30: must be at most"),
    ],
)
def test_a_bad_scenario_gets_one_line_that_says_what_is_wrong_where(
    written, text, old, new, problem
):
    path = written(text.replace(old, new))
    with pytest.raises(TraceError) as caught:
        list(read_wva(path))
    assert str(caught.value).startswith(f"{path}{problem}")
    assert "\n" not in str(caught.value)


@pytest.fixture
def usual_depth():
    """Python's own limit of recursion: another test's library may have raised it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("load: {type: constant, stages: []}", ":1: load.stages []: must be a list of at least"),
        ("- 1", ":1: must be a YAML mapping"),
        ("[" * 1000, ": is no YAML: nested too deeply"),
        ("# long\n" * 200_000, ": must be a scenario of at most 1,048,576 bytes"),
    ],
    ids=["no stages", "a list", "deep", "long"],
)
def test_what_is_no_scenario_gets_one_line(written, text, problem, usual_depth):
    path = written(text)
    with pytest.raises(TraceError) as caught:
        list(read_wva(path))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("name", "requests", "seconds", "tokens"),
    [
        ("prefill_heavy", 12_000, 600, (4000, 1000)),
        ("decode_heavy", 12_000, 600, (1000, 4000)),
        ("symmetrical", 12_000, 600, (1000, 1000)),
        ("bursty", 8280, 900, (1000, 1000)),
        ("sharegpt_inferenceperf", 9000, 900, (161, 264)),
        ("static-baseline-gptoss120b", 16_800, 5700, (1070, 409)),
    ],
)
def test_all_published_scenarios_are_read(shared, name, requests, seconds, tokens):
    trace = list(open_trace(shared / f"data/traces/wva_scenarios/{name}.yaml"))
    assert len(trace) == pytest.approx(requests, rel=0.03 if requests == 12_000 else 0)
    assert seconds * 0.99 < trace[-1].at < seconds
    means = [fmean(one[place] for one in trace) for place in (1, 2)]
    assert means == pytest.approx(tokens, rel=0.02)
