"""`cacheaware simulate validate` as people and programs call it."""

import json
import sys
from functools import partial

import pytest


@pytest.fixture
def called(command):
    """(exit code, stdout, stderr) of a call."""
    return partial(command, "validate")


def test_without_logs_it_compares_the_published_table(called):
    code, out, err = called()

    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1::2]] == [
        "prefill-heavy",
        "decode-heavy",
        "symmetric",
    ]


def test_logs_of_the_model_itself_are_met(called, logs):
    code, out, err = called("--logs", logs)

    assert (code, err) == (0, "")
    assert "RTX4090_Llama-3.1-8B: c0_ms 18" in out
    assert "shared blocks" in out


def test_json_for_programs(called, logs):
    code, out, _ = called("--logs", logs, "-o", "json")

    shown = json.loads(out)
    assert code == 0
    assert [one["run"] for one in shown["fits"]] == [
        "RTXPRO6000_Llama-3.1-8B",
        "RTX4090_Llama-3.1-8B",
    ]
    assert len(shown["rows"]) == 2 * 12 + 6
    assert all(row["ok"] for row in shown["rows"])
    assert {"real", "simulated", "error", "tolerance"} <= shown["rows"][0].keys()


def test_a_log_that_the_model_cannot_meet_ends_with_code_1(called, logs):
    path = logs / "RTXPRO6000_Llama-3.1-8B" / "requests.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows[len(rows) // 2 :]:
        row["last_token_ts"] += 30
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")

    code, out, _ = called("--logs", logs)

    assert code == 1
    assert "OFF" in out


def test_a_folder_without_logs_gets_one_line_and_code_2(called, tmp_path):
    code, out, err = called("--logs", tmp_path)

    assert (code, out) == (2, "")
    assert err.startswith("cacheaware: --logs: ")
    assert "requests.jsonl: not readable: No such file" in err
    assert err.count("\n") == 1


def test_without_the_extra_it_says_what_to_install(called, monkeypatch):
    monkeypatch.setitem(sys.modules, "cacheaware_sim.validate.report", None)

    code, _, err = called()

    assert code == 2
    assert "pip install 'cacheaware[sim,bench]'" in err
