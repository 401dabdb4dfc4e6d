"""Runs at once, kept as they end."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cacheaware_sim.bench import runner
from cacheaware_sim.bench.matrix import Case
from cacheaware_sim.bench.runner import result_of, run_all, stored
from cacheaware_sim.bench.tuning import GRIDS


@pytest.fixture
def some(small):
    """Four runs of a moment each."""
    return [
        Case(workload=small, policy=policy, seed=seed)
        for policy in ("constant-2", "cacheaware")
        for seed in (0, 1)
    ]


@pytest.fixture
def told():
    """What the runner says on its way."""
    return []


@pytest.fixture
def go(store, told):
    def run(cases):
        return run_all(cases, store, workers=1, on_done=lambda done, total: told.append(done))

    return run


def test_all_runs_are_kept(go, store, some, told):
    assert go(some) == ()
    assert store.missing(some) == []
    assert told == [0, 1, 2, 3, 4]
    assert store.read(some[0])["policy"] == "constant-2"
    assert store.read(some[3])["seed"] == 1


def test_what_is_kept_is_not_run_again(go, store, some, result, told):
    store.write(some[0], result(12.0))

    assert go(some) == ()

    assert store.read(some[0])["attainment_percent"] == 12.0
    assert told[0] == 1


def test_a_run_is_the_same_in_a_pool_and_alone(go, store, some, tmp_path):
    go(some[:1])
    alone = result_of(some[0], tmp_path)

    assert {**store.read(some[0]), "cpu_seconds": 0} == {**alone, "cpu_seconds": 0}


def test_one_that_fails_is_one_line_and_the_others_go_on(go, store, some, small):
    # no request comes in the first thousandth of a second
    broken = Case(workload=replace(small, to_s=0.001), policy="constant-2")

    (failure,) = go([broken, *some])

    assert str(failure) == (
        "constant-2 on small, seed 0: from 0, to 0.001: must be a part of the trace with requests"
    )
    assert store.missing([broken, *some]) == [broken]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(
            ZeroDivisionError("by zero\nat dawn"), "ZeroDivisionError: by zero", id="ours"
        ),
        pytest.param(OSError("disk full"), "disk full", id="the machine's"),
    ],
)
def test_whatever_goes_wrong_in_a_run_is_one_line(store, some, monkeypatch, error, message):
    def fail(case, data):
        raise error

    monkeypatch.setattr(runner, "result_of", fail)

    assert stored(some[0], store, store.path(some[0])) == message
    assert store.read(some[0]) is None


def test_a_result_of_other_code_than_the_bench_began_with_is_not_kept(store, some):
    message = stored(some[0], store, store.folder / "of-yesterday.json")

    assert message == "the code or the trace changed while the bench ran; run it again"
    assert store.read(some[0]) is None


def test_a_setting_of_the_tuning_is_what_runs(small, tmp_path):
    grid = GRIDS["static-peak"]
    low, high = (
        next(n for n, one in enumerate(grid) if (one.bin_s, one.utilization) == wanted)
        for wanted in ((10.0, 0.5), (300.0, 0.8))
    )
    generous, tight = (
        result_of(Case(workload=small, policy="static-peak", variant=str(number)), tmp_path)
        for number in (low, high)
    )

    assert generous["gpu_hours"] > tight["gpu_hours"]


def test_the_bound_is_a_run_like_others(small, tmp_path):
    bound = result_of(Case(workload=small, policy="bound"), tmp_path)
    constant = result_of(Case(workload=small, policy="constant-2"), tmp_path)

    assert 0 < bound["gpu_hours"] <= constant["gpu_hours"]


PROGRAM = """
import sys
from dataclasses import replace
from pathlib import Path
from cacheaware_sim.bench import workloads
from cacheaware_sim.bench.matrix import Case
from cacheaware_sim.bench.runner import run_all
from cacheaware_sim.bench.store import Store

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    load = replace(workloads.PREFILL, name="small", trace="steady", to_s=60.0)
    cases = [Case(workload=load, policy="constant-2", seed=seed) for seed in range(400)]
    store = Store(folder, folder)
    run_all(cases, store, workers=1, on_done=lambda done, _: print(done, flush=True))
"""


def children(pid):
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in tasks.read_text().split()] if tasks.exists() else []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_bench_that_is_killed_leaves_whole_results_and_no_process(tmp_path, sign):
    program, folder = tmp_path / "program.py", tmp_path / "results"
    program.write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, program, folder],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    while process.stdout.readline().strip() != "2":
        assert process.poll() is None
    workers = children(process.pid)
    if sign == signal.SIGINT:  # a terminal sends it to all of them
        os.killpg(process.pid, sign)
    else:
        os.kill(process.pid, sign)
    process.communicate(timeout=20)

    assert workers
    waited = time.monotonic() + 20
    while any(_alive(pid) for pid in workers):
        assert time.monotonic() < waited, "a worker outlives the bench"
        time.sleep(0.05)
    stored = list(folder.glob("*.json"))
    assert 2 <= len(stored) < 400
    assert all(path.read_text().endswith("}\n") for path in stored)


def _alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_a_killed_worker_is_replaced(store, some):
    """The kernel may kill one that takes too much memory."""
    killed = []

    def on_done(done, total):
        if done == 1 and not killed:
            (worker,) = [
                pid
                for pid in children(os.getpid())
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
            os.kill(worker, signal.SIGKILL)
            killed.append(worker)

    assert run_all(some, store, workers=1, on_done=on_done) == ()
    assert killed
    assert store.missing(some) == []
