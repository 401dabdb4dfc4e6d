"""`cacheaware simulate bound` as people and programs call it, and what it computes."""

import json
import re
import shlex
import sys
from functools import partial
from pathlib import Path

import pytest

from cacheaware_sim.bound import bound_of
from cacheaware_sim.run_spec import SpecError
from cacheaware_sim.simulate import run

PAGE = Path(__file__).parents[3] / "docs" / "simulator.md"
DOCUMENTED = re.findall(r"^cacheaware simulate bound (.*)$", PAGE.read_text(), re.MULTILINE)
KEYS = """
gpu_hours starting_gpu_hours work_gpu_hours mean_replicas peak_replicas requests trace trace_sha256
trace_seconds bin_s scale seed profile coefficients cold_start_s start_replicas min_replicas
slo_ttft_ms slo_tpot_ms prefix_caching cpu_seconds
"""


@pytest.fixture
def called(command):
    """(exit code, stdout, stderr) of a call."""
    return partial(command, "bound")


def test_no_policy_that_serves_all_in_time_costs_less(spec):
    bound = bound_of(spec()).bound.pod_seconds / 3600

    for policy in ("constant-4", "constant-8", "wva-v1", "knative-kpa"):
        assert bound <= run(spec(policy=policy)).gpu_hours


def test_the_work_of_shared_prompts_is_done_once(spec, tmp_path):
    path = tmp_path / "shared.jsonl"
    row = '{"timestamp": %d, "input_length": 2048, "output_length": 2, "hash_ids": [1, 2, 3, 4]}'
    path.write_text("\n".join(row % (n * 3000) for n in range(20)) + "\n")

    on, off = (
        bound_of(spec(trace=path, prefix_caching=how)).as_json()["work_gpu_hours"]
        for how in ("auto", "off")
    )
    assert on < off / 3


def test_what_no_pod_can_hold_is_no_work(spec, bursts, tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(bursts.read_text() + "2023-11-16 18:25:00,900000,5\n")

    given, longer = bound_of(spec()), bound_of(spec(trace=path))
    assert longer.survey.requests == given.survey.requests + 1
    assert sum(longer.work.arrived) == pytest.approx(sum(given.work.arrived))


def test_a_pod_of_several_gpus_costs_them_all(spec):
    large = {"model": "llama-3.1-70b", "gpu": "h100"}
    result = bound_of(spec(**large, tp=4))

    assert result.as_json()["gpu_hours"] == pytest.approx(
        4 * result.bound.pod_seconds / 3600, abs=1e-4
    )


def test_pods_that_must_be_there_raise_it(spec):
    least = bound_of(spec()).bound.pod_seconds

    assert bound_of(spec(), 3).bound.pod_seconds > max(least, 3 * 590)


def test_the_keys_of_the_json_are_stable(called, bursts):
    code, out, err = called("--trace", bursts, "-o", "json")

    shown = json.loads(out)
    assert (code, err) == (0, "")
    assert list(shown) == KEYS.split()
    assert (shown["requests"], shown["start_replicas"], shown["min_replicas"]) == (700, 8, 0)
    assert shown["work_gpu_hours"] <= shown["gpu_hours"]


def test_the_options_reach_the_bound(called, bursts):
    _, out, _ = called(
        *("--trace", bursts, "--scale", 2, "--from", 10, "--to", 300, "--gpu", "h100"),
        *("--coefficients", "raw", "--cold-start", 15, "--seed", 3, "--start-replicas", 2),
        *("--slo-ttft-ms", 500, "--slo-tpot-ms", 50, "--prefix-caching", "on"),
        *("--min-replicas", 1, "-o", "json"),
    )

    shown = json.loads(out)
    expected = {
        "scale": 2, "profile": "llama-3.1-8b-h100", "coefficients": "raw", "cold_start_s": 15,
        "seed": 3, "start_replicas": 2, "slo_ttft_ms": 500, "slo_tpot_ms": 50,
        "prefix_caching": True, "min_replicas": 1,
    }  # fmt: skip
    assert {key: shown[key] for key in expected} == expected
    assert 680 < shown["requests"] < 700


def test_a_table_for_people(called, bursts):
    code, out, err = called("--trace", bursts)

    assert (code, err) == (0, "")
    assert out.splitlines()[0].split()[0] == "GPU-HOURS"
    assert len(out.splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trace", "none.csv"], "--trace none.csv: must be a file, or one of the generators "),
        (["--trace", "steady", "--scale", "0"], "--scale 0: must be above 0"),
        (["--trace", "steady", "--min-replicas", "-1"], "--min-replicas"),
        (["--trace", "steady", "--start-replicas", "0"], "--start-replicas 0: must be 1 to 1000"),
        (["--trace", __file__], "test_bound.py:1: content"),
    ],
    ids=["trace", "scale", "least", "start", "content"],
)
def test_bad_input_gets_one_line_and_code_2(called, words, message):
    code, out, err = called(*words)

    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("cacheaware: ")
    assert err.count("\n") == 1


def test_a_part_of_a_trace_without_requests_has_no_bound(spec):
    with pytest.raises(SpecError, match="from 5000, to inf: must be a part of the trace with"):
        bound_of(spec(from_s=5000.0))


def test_without_the_extra_it_says_what_to_install(called, bursts, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    for name in ("cacheaware_sim.bound", "cacheaware_sim.bounds.lower_bound"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    code, _, err = called("--trace", bursts)

    assert code == 2
    assert "pip install 'cacheaware[sim,bench]'" in err


@pytest.mark.parametrize("line", DOCUMENTED)
def test_the_commands_of_the_docs_run(called, line):
    code, out, err = called(*shlex.split(line), "--to", 60)

    assert (code, err) == (0, "")
    assert out
