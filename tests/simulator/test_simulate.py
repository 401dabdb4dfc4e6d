"""A run, from a trace's file to its result."""

import hashlib
import json
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from cacheaware_sim.fleet.timeline import Row
from cacheaware_sim.policies.constant import ConstantPolicy
from cacheaware_sim.policies.registry import PEERS
from cacheaware_sim.profiles import PROFILES
from cacheaware_sim.run_spec import RunSpec, SpecError
from cacheaware_sim.simulate import (
    Survey,
    engine_of,
    policies,
    policy_of,
    requests_of,
    run,
    start_replicas_of,
    survey_of,
)
from cacheaware_sim.timeline_file import COLUMNS, read_timeline, timeline_writer
from cacheaware_sim.traces.trace import TraceError, TraceRequest

KEYS = """
policy variant attainment_percent gpu_hours requests finished lost lost_to_scale_down never_fit
unfinished preemptions ttft_ms tpot_ms scale_events flaps starting_gpu_hours cordoned_gpu_hours
terminating_gpu_hours mean_replicas output_tokens timeline_file trace trace_sha256 trace_seconds
zero_outputs scale jitter_s seed profile coefficients cold_start_s start_replicas slo_ttft_ms
slo_tpot_ms router shutdown prefix_caching faults oracle cpu_seconds
"""


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    """Two minutes, two requests a second of 512 and 32 tokens."""
    path = tmp_path_factory.mktemp("traces") / "small.csv"
    rows = [
        f"2023-11-16 18:{15 + n // 120:02}:{n % 120 / 2:010.7f},512,{32 if n % 10 else 1}"
        for n in range(240)
    ]
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def spec(azure):
    def make(**options) -> RunSpec:
        return RunSpec(**{"trace": azure, "policy": "constant-2", **options})

    return make


def test_a_run_counts_every_request_and_every_gpu_second(spec, azure, tmp_path):
    result = run(spec(), timeline=tmp_path / "rows.csv")
    shown = result.as_json()

    assert json.loads(json.dumps(shown)) == shown
    assert shown["requests"] == shown["finished"] == 240
    assert shown["lost"] == shown["unfinished"] == shown["never_fit"] == shown["flaps"] == 0
    assert shown["attainment_percent"] == 100
    assert shown["trace_seconds"] == 119.5
    assert shown["gpu_hours"] == round(2 * 119.5 / 3600, 4)
    assert shown["mean_replicas"] == 2
    assert shown["trace_sha256"] == hashlib.sha256(azure.read_bytes()).hexdigest()
    assert 24 < shown["ttft_ms"]["p50"] <= shown["ttft_ms"]["p90"] <= shown["ttft_ms"]["p99"] < 200
    assert 24 < shown["tpot_ms"]["p50"] < 60
    assert shown["cpu_seconds"] > 0
    assert shown["timeline_file"] == str(tmp_path / "rows.csv")


def test_the_keys_of_the_json_are_stable(spec):
    assert list(run(spec(to_s=10)).as_json()) == KEYS.split()


def test_a_pod_of_several_gpus_costs_them_all(spec):
    one = run(spec(model="llama-3.1-70b", gpu="h100", tp=4))

    assert one.gpu_hours == pytest.approx(4 * 2 * 119.5 / 3600)


def test_the_timeline_has_a_row_for_each_scrape(spec, tmp_path):
    path = tmp_path / "rows.csv"
    run(spec(), timeline=path)

    rows = read_timeline(path)
    assert [row.at_s for row in rows] == [5.0 * n for n in range(1, 24)]
    assert {row.serving for row in rows} == {2}
    assert all(isinstance(row.serving, int) for row in rows)
    assert rows[3].requests_per_s == 2
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)


def test_a_timeline_is_read_as_it_was_written_and_unknown_stays_unknown(tmp_path):
    path = tmp_path / "rows.csv"
    rows = [
        Row(5.0, 0.4, 1234.5, 3, 1, 2, 0, 0, 7, 1, usage, ttft_s)
        for usage, ttft_s in [(0.25, 1.5), (None, None), (0.0, 0.0)]
    ]
    with timeline_writer(path) as write:
        for row in rows:
            write(row)

    assert read_timeline(path) == rows
    assert path.read_text().splitlines()[2] == "5,0.4,1234.5,3,1,2,0,0,7,1,,"


def test_progress_goes_up_to_the_end(spec):
    told = []
    run(spec(), on_progress=told.append)

    assert all(before < after for before, after in pairwise(told))
    assert told[0] < 0.1
    assert 0.9 < told[-1] <= 1


def test_the_same_spec_is_the_same_result(spec):
    one, two, other = (
        run(spec(policy="hpa-waiting", scale=20, seed=seed)).as_json() for seed in (1, 1, 2)
    )

    assert {**one, "cpu_seconds": 0} == {**two, "cpu_seconds": 0}
    assert one["ttft_ms"] != other["ttft_ms"]


def test_scaling_comes_before_the_window(spec):
    played = list(requests_of(spec(scale=3, from_s=30, to_s=60)))

    assert 0 <= played[0].at < 1
    assert 29 < played[-1].at < 30
    assert len(played) == pytest.approx(3 * 60, abs=6)


def test_a_generated_trace_needs_no_file(spec):
    shown = run(spec(trace=Path("steady"), to_s=60.0)).as_json()

    assert 200 < shown["requests"] < 400
    assert (shown["trace"], shown["trace_sha256"]) == ("steady", None)
    ends = [one.at for one in requests_of(spec(trace=Path("steady"), scale=0.1))]
    assert 3500 < ends[-1] < 3602


def test_a_file_comes_before_a_generator_of_its_name(spec, azure, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steady").write_bytes(azure.read_bytes())

    assert run(spec(trace=Path("steady"))).as_json()["requests"] == 240


def test_zero_outputs_are_told(spec, tmp_path):
    path = tmp_path / "zero.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:00,10,0\n2023-11-16 18:15:09,10,5\n"
    )

    assert run(spec(trace=path)).as_json()["zero_outputs"] == 1


def test_a_request_longer_than_the_pool_is_lost_and_the_others_are_served(spec, tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:00,500000,5\n2023-11-16 18:15:01,90000,5\n"
    )

    shown = run(spec(trace=path)).as_json()
    assert (shown["finished"], shown["lost"], shown["never_fit"]) == (1, 1, 1)


def test_an_engine_takes_the_longest_request_that_its_pool_holds():
    profile = PROFILES["llama-3.1-8b-rtx4090"]
    pool = 16 * (profile.num_blocks - 1)

    def limit(longest):
        return engine_of(profile, Survey(1, 0.0, longest, prefixes=False)).max_model_len

    assert (limit(100), limit(40_000), limit(99_999)) == (32_768, 40_000, pool)


@pytest.mark.parametrize("prefix", [None, (), (1, 2)])
def test_the_prefix_cache_is_on_where_prompts_share_something(prefix):
    survey = survey_of(iter([TraceRequest(0.0, 99, 1), TraceRequest(1.0, 40, 2, prefix=prefix)]))

    assert survey == Survey(2, 1.0, 100, prefixes=bool(prefix))
    assert engine_of(PROFILES["llama-3.1-8b-l40s"], survey).prefix_caching is bool(prefix)


@pytest.mark.parametrize(("asked", "used"), [("auto", False), ("on", True), ("off", False)])
def test_the_prefix_cache_can_be_asked_for(spec, asked, used):
    assert run(spec(prefix_caching=asked, to_s=5)).as_json()["prefix_caching"] is used


def test_ours_is_among_the_policies_and_loses_nothing(spec):
    assert "cacheaware" in policies().names()

    shown = run(spec(policy="cacheaware", scale=8)).as_json()
    assert shown["policy"] == "cacheaware"
    assert shown["lost"] == 0
    assert shown["start_replicas"] == 8


def test_constants_begin_with_their_own_number(spec):
    def started(**options):
        one = spec(**options)
        return start_replicas_of(one, policy_of(one))

    assert started(policy="constant-13") == 13
    assert started(policy="constant-13", start_replicas=2) == 2
    assert started(policy="static-peak", scale=100) > 8
    assert started(policy="wva-v1") == 8
    assert started(policy="wva-v1", max_replicas=5) == 5


def test_static_policies_are_given_the_trace_as_it_is_played(spec):
    few, many = (
        policy_of(spec(policy="static-mean")),
        policy_of(spec(policy="static-mean", scale=100)),
    )

    assert isinstance(few, ConstantPolicy)
    assert few.replicas < many.replicas


def test_tuned_settings_are_a_variant(spec):
    default, tuned = (
        policy_of(spec(policy="knative-kpa", variant=variant)) for variant in ("default", "tuned")
    )
    assert default._settings != tuned._settings


def test_settings_of_ones_own_take_the_place_of_a_variants(spec):
    own = replace(PEERS["knative-kpa"].default, target=3.0)

    assert policy_of(spec(policy="knative-kpa"), own)._settings == own


def test_jitter_is_another_run_of_the_same_load_for_each_seed(spec):
    still, first, second = (
        [one.at for one in requests_of(spec(jitter_s=jitter, seed=seed))]
        for jitter, seed in ((0, 1), (2, 1), (2, 2))
    )

    assert len(still) == len(first) == len(second)
    assert first != second
    assert max(abs(moved - at) for moved, at in zip(first, still, strict=True)) <= 2
    assert [one.at for one in requests_of(spec(jitter_s=2, scale=2))] == [
        one.at for one in requests_of(spec(scale=2))
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "hpa"}, "policy hpa: must be one of constant-N, .*token-velocity, cacheaware"),
        ({"policy": "constant-41"}, "policy constant-41: must be constant-1 to constant-40"),
        ({"trace": Path("none.csv")}, r"trace none\.csv: must be a file, or .* azure-conv-like"),
        ({"from_s": 500.0}, "from 500, to inf: must be a part of the trace with requests"),
    ],
    ids=["policy", "constant", "trace", "window"],
)
def test_what_makes_no_run_gets_one_line(spec, options, message):
    with pytest.raises(SpecError, match=message):
        run(spec(**options))


def test_a_file_that_is_no_trace_gets_one_line(spec, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("nothing of interest\n")

    with pytest.raises(TraceError, match=r"notes\.txt:1: content"):
        run(spec(trace=path))


def test_memory_does_not_grow_with_the_trace(spec):
    def peak(seconds):
        one = spec(trace=Path("bursty"), policy="cacheaware", to_s=seconds, cold_start_s=15)
        tracemalloc.start()
        try:
            run(one)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(30.0)  # what is made once
    assert peak(1600.0) < 1.3 * peak(400.0) + 300_000
