"""`cacheaware simulate run` as people and programs call it."""

import json
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from cacheaware_sim import cli_run

PAGE = Path(__file__).parents[2] / "docs" / "simulator.md"
DOCUMENTED = re.findall(r"^cacheaware simulate run (.*)$", PAGE.read_text(), re.MULTILINE)


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """A minute of requests, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.csv"
    rows = [f"2023-11-16 18:15:{n / 2:09.6f},300,20" for n in range(120)]
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def called(command):
    """(exit code, stdout, stderr) of a call."""
    return partial(command, "run")


def test_a_table_for_people(called, trace):
    code, out, err = called("--trace", trace, "--policy", "constant-3")

    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split()[:2] == ["POLICY", "ATTAINED"]
    assert lines[1].split()[:2] == ["constant-3", "100"]
    assert [line.split()[0] for line in lines[2:5]] == ["MS", "TTFT", "TPOT"]
    assert lines[-1] == "timeline: timeline-constant-3-small.csv"
    assert (trace.parent / "timeline-constant-3-small.csv").read_text().count("\n") == 12


def test_json_for_programs(called, trace):
    code, out, err = called("--trace", trace, "--policy", "cacheaware", "-o", "json")

    shown = json.loads(out)
    assert (code, err) == (0, "")
    assert (shown["policy"], shown["requests"], shown["lost"]) == ("cacheaware", 120, 0)


def test_the_options_reach_the_run(called, trace):
    _, out, _ = called(
        *("--trace", trace, "--policy", "wva-v1", "--scale", 2, "--from", 10, "--to", 30),
        *("--gpu", "h100", "--coefficients", "raw", "--cold-start", 15, "--seed", 3),
        *("--start-replicas", 2, "--max-replicas", 3, "--slo-ttft-ms", 500, "--slo-tpot-ms", 50),
        *("--variant", "tuned", "--router", "random", "--shutdown", "abort", "--faults", "all"),
        *("--prefix-caching", "on"),
        *("--timeline", "rows.csv", "-o", "json"),
    )

    shown = json.loads(out)
    expected = {
        "scale": 2, "profile": "llama-3.1-8b-h100", "coefficients": "raw", "cold_start_s": 15,
        "seed": 3, "start_replicas": 2, "slo_ttft_ms": 500, "slo_tpot_ms": 50, "variant": "tuned",
        "router": "random", "shutdown": "abort", "faults": "all", "timeline_file": "rows.csv",
        "prefix_caching": True,
    }  # fmt: skip
    assert {key: shown[key] for key in expected} == expected
    assert 75 < shown["requests"] < 85
    assert 19 < shown["trace_seconds"] < 20


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "hpa"], "--policy hpa: must be one of constant-N, "),
        (["--policy", "cacheaware", "--scale", "0"], "--scale 0: must be above 0"),
        (["--policy", "cacheaware", "--gpu", "b200"], "--model llama-3.1-8b on gpu b200 "),
        (["--policy", "cacheaware", "--plot", "x.jpg"], "--plot x.jpg: must end with .png, "),
        (["--policy", "cacheaware", "--plot", "no/x.png"], "--plot no/x.png: must be in a dir"),
        (["--policy", "cacheaware", "--timeline", "no/x.csv"], "No such file"),
        (
            ["--policy", "cacheaware", "--trace", "none.csv"],
            "--trace none.csv: must be a file, or one of the generators ",
        ),
        ([], "Missing option '--policy'"),
    ],
    ids=["policy", "scale", "gpu", "plot", "directory", "timeline", "trace", "missing"],
)
def test_bad_input_gets_one_line_and_code_2(called, trace, words, message):
    code, out, err = called("--trace", trace, *words)

    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("cacheaware: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("line", DOCUMENTED)
def test_the_commands_of_the_docs_run(called, trace, line):
    code, out, err = called(*shlex.split(line), "--to", 60)

    assert (code, err) == (0, "")
    assert out


def test_requests_that_fit_nowhere_are_told(called, trace):
    trace.write_text(trace.read_text() + "2023-11-16 18:16:00,900000,5\n")

    _, out, _ = called("--trace", trace, "--policy", "constant-1")

    assert "1 requests are longer than a pod's KV cache: lost" in out


def test_a_picture_is_drawn(called, trace):
    code, _, _ = called("--trace", trace, "--policy", "constant-3", "--plot", "run.png")

    assert code == 0
    assert (trace.parent / "run.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("plot", [True, False], ids=["plot", "run"])
def test_without_the_extra_it_says_what_to_install(called, trace, monkeypatch, plot):
    if plot:
        monkeypatch.setattr(cli_run, "find_spec", lambda name: None)
    else:
        monkeypatch.setitem(sys.modules, "cacheaware_sim.simulate", None)
    words = ["--plot", "x.png"] if plot else []

    code, _, err = called("--trace", trace, "--policy", "constant-3", *words)

    assert code == 2
    assert "pip install 'cacheaware[sim,plot]'" in err


def test_progress_is_shown_on_a_terminal_only(capsys, monkeypatch):
    with cli_run.progress("constant-3") as told:
        assert told is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with cli_run.progress("constant-3") as told:
        told(0.5)
    assert "50%" in capsys.readouterr().err


def test_the_command_line_starts_without_the_simulator():
    code = (
        "import sys; from cacheaware.cli import command_line; command_line();"
        "heavy = [m for m in sys.modules if m.startswith(('cacheaware_sim.fleet', 'matplotlib'))];"
        "assert not heavy, heavy"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
