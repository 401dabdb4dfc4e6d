"""`cacheaware simulate bench` as people and programs call it."""

import json
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.operator.cli.conftest import example, ran

from cacheaware_sim import cli_bench
from cacheaware_sim.bench import matrix, workloads

ROWS = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:15:{second:02}.{part}000000,{1000 + 10 * second},20\n"
    for second in range(40)
    for part in range(0, 10, 2)
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def called(command, here):
    """(exit code, stdout, stderr) of a call; results stay in the directory."""
    return partial(command, "bench", "--workers", 1)


@pytest.fixture
def traces(here):
    """A data folder with short traces under the names of Azure's."""
    folder = here / "data" / "traces" / "azure2023"
    folder.mkdir(parents=True)
    for name in ("conv", "code"):
        (folder / f"AzureLLMInferenceTrace_{name}.csv").write_text(ROWS)
    return here / "data"


@pytest.fixture
def quick(monkeypatch):
    """Quick workloads of half a minute."""
    for name in ("QUICK", "QUICK_GENERATED"):
        short = tuple(
            replace(load.first(30), constants=(1, 2)) for load in getattr(workloads, name)
        )
        for module in (matrix, workloads):
            monkeypatch.setattr(module, name, short)


ONE = ("--only", "conv-20min", "--policies", "constant", "--policies", "cacheaware", "--seeds", 1)


def test_a_table_for_people(called, traces):
    code, out, err = called("--data", traces, *ONE)

    assert (code, err) == (0, "")
    assert out.splitlines()[0].split()[:3] == ["WORKLOAD", "POLICY", "SEEDS"]
    assert [line.split()[1] for line in out.splitlines()[1:]].count("cacheaware") == 1


def test_json_for_programs(called, traces):
    code, out, _ = called("--data", traces, *ONE, "-o", "json")

    rows = json.loads(out)
    assert code == 0
    constants = {f"constant-{number}" for number in workloads.QUICK_CONV.constants}
    assert {row["policy"] for row in rows} == {"cacheaware", *constants}
    assert set(rows[0]) == {
        "workload", "policy", "seeds", "attainment_percent", "attainment_deviation", "gpu_hours",
        "right_of_front_percent", "setting",
    }  # fmt: skip


def test_the_folder_of_the_data_may_come_from_the_environment(called, traces, monkeypatch):
    monkeypatch.setenv("CACHEAWARE_DATA", str(traces))
    assert called(*ONE)[0] == 0


def test_a_run_that_fails_is_told_and_sets_the_exit_code(called, traces):
    (traces / "traces" / "azure2023" / "AzureLLMInferenceTrace_conv.csv").write_text(ROWS[:40])

    code, _, err = called("--data", traces, *ONE, "--policies", "wva-v1")

    assert code == 1
    lines = err.splitlines()
    assert len(lines) == len(workloads.QUICK_CONV.constants) + 1 + 2
    assert all(line.startswith("cacheaware: ") for line in lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--part", "half"], "--part half: must be one of quick, standard, full"),
        (["--only", "conf"], "--only conf: must be one of conv, code, "),
        (["--policies", "hpa"], "--policies hpa: must be one of cacheaware, constant, "),
        (["--seeds", "0"], "--seeds 0: must be 1 to 100"),
        (["--workers", "0"], "--workers"),
        (["--data", "none"], "--data none: must hold traces/azure2023/Azure"),
        (["--record"], "--record with part standard: must be with --part quick"),
        (["--report", "page.txt"], "--report page.txt: must end with .md"),
        (["--report", "no/page.md"], "--report no/page.md: must end with .md, in a directory"),
        (["--report", "page.md"], "--results build/bench: must hold results"),
        (["--part", "quick"], "--recorded tests/simulator/bench/front.json: must be a file that"),
    ],
    ids=lambda one: "-".join(one).strip("-") if isinstance(one, list) else "",
)
def test_bad_input_gets_one_line_and_code_2(called, words, message):
    code, out, err = called(*words)

    assert (code, out) == (2, "")
    assert message in err
    assert err.splitlines()[-1].startswith("cacheaware: ")
    assert len([line for line in err.splitlines() if line.startswith("cacheaware: ")]) == 1


def test_a_report_is_written_with_its_pictures_and_nothing_is_run(called, traces, here):
    words = ("--data", traces, "--only", "code", "--policies", "constant", "--seeds", 1)
    called(*words)
    before = sorted((here / "build" / "bench").iterdir())

    code, out, err = called("--data", traces, "--only", "code", "--report", "page.md")

    assert (code, err) == (0, "")
    assert out == "page.md, 1 pictures\n"
    assert "](page/code.png)" in (here / "page.md").read_text()
    assert (here / "page" / "code.png").stat().st_size < 120_000
    assert sorted((here / "build" / "bench").iterdir()) == before


def test_the_tuning_tells_the_best_setting_of_a_peer(called, traces):
    code, out, err = called("--data", traces, "--tune", "--policies", "dynamo", "-o", "json")

    (entry,) = json.loads(out)
    assert (code, err) == (0, "")
    assert entry["policy"] == "dynamo"
    assert entry["tried"] == len(cli_grid("dynamo"))


def cli_grid(name):
    from cacheaware_sim.bench.tuning import GRIDS

    return GRIDS[name]


@pytest.fixture
def recorded(called, traces, quick, here):
    """Ours as recorded, for files and generators."""
    code, _, err = called(
        "--data", traces, "--part", "quick", "--seeds", 1, "--record", "--recorded", "front.json"
    )
    assert (code, err) == (0, "")
    return here / "front.json"


def test_quick_passes_where_ours_stands_as_recorded(called, traces, recorded):
    names = json.loads(recorded.read_text())["workloads"]
    assert set(names) == {"conv-20min", "code-20min", "conv-like", "code-like"}

    words = ("--part", "quick", "--seeds", 1, "--recorded", "front.json")
    assert called("--data", traces, *words)[::2] == (0, "")
    code, _, err = called("--data", "none", *words)
    assert code == 0
    assert err == "none has no traces of Azure's: generated ones instead\n"


def test_quick_fails_with_one_line_where_ours_fell_behind(called, traces, recorded):
    text = json.loads(recorded.read_text())
    stood = text["workloads"]["conv-20min"]
    stood["ours"] = [[100.0, stood["ours"][0][1] / 2]]
    stood["right_percent"] = [None]
    recorded.write_text(json.dumps(text))

    code, _, err = called(
        "--data", traces, "--part", "quick", "--seeds", 1, "--recorded", "front.json"
    )

    assert code == 1
    assert re.fullmatch(r"cacheaware: conv-20min: .* recorded .*noise is .*\n", err)


def test_a_record_that_is_none_is_told(called, traces, recorded):
    recorded.write_text('{"workloads": {"conv-20min": {}, "code-20min": 3}}')

    code, _, err = called(
        "--data", traces, "--part", "quick", "--seeds", 1, "--recorded", "front.json"
    )

    assert code == 2
    assert err == "cacheaware: conv-20min: must be as --part quick --record writes it\n"


def test_what_was_never_recorded_is_told(called, traces, recorded):
    recorded.write_text('{"workloads": {}}')

    code, _, err = called(
        "--data", traces, "--part", "quick", "--seeds", 1, "--recorded", "front.json"
    )

    assert code == 2
    assert err.startswith("cacheaware: conv-20min: must be recorded first")


def test_recording_needs_the_files(called, quick):
    code, _, err = called("--part", "quick", "--record", "--recorded", "front.json")

    assert code == 2
    assert "--data ../shared/data: must hold Azure's traces for --record" in err


def test_at_ctrl_c_it_says_that_it_goes_on(called, traces, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("cacheaware_sim.bench.runner.run_all", interrupted)

    code, _, err = called("--data", traces, *ONE)

    assert code == 130
    assert err == "cacheaware: interrupted; the same command goes on from here\n"


def test_without_a_terminal_a_line_tells_the_progress_each_minute(monkeypatch, capsys):
    monkeypatch.setattr(cli_bench, "TOLD_S", 0.0)
    with cli_bench.told(4) as on_done:
        on_done(1, 4)

    assert capsys.readouterr().err == "1 of 4 runs, 0 min\n"


def test_on_a_terminal_a_bar_tells_it(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with cli_bench.told(4) as on_done:
        on_done(1, 4)

    assert "25%" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "library"),
    [(["--report", "page.md"], "matplotlib"), (["--policies", "bound"], "scipy")],
)
def test_without_the_extra_it_says_what_to_install(called, traces, monkeypatch, words, library):
    monkeypatch.setattr(cli_bench, "find_spec", lambda name: None)

    code, _, err = called("--data", traces, "--only", "code", *words)

    assert code == 2
    assert f"{library} is not installed; pip install 'cacheaware[sim,plot,bench]'" in err


def test_the_recorded_front_of_the_project_is_one():
    stored = json.loads((Path(__file__).parent / "front.json").read_text())["workloads"]

    assert set(stored) == {load.name for load in (*workloads.QUICK, *workloads.QUICK_GENERATED)}


@pytest.mark.usefixtures("traces")
def test_the_example_of_the_help_runs(capsys):
    code, _, err = ran(capsys, *example("simulate", "bench"))
    assert (code, err) == (0, "")
