"""Results are kept under a name that all decides which decides them."""

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cacheaware_sim.bench import sources
from cacheaware_sim.bench import store as store_module
from cacheaware_sim.bench.matrix import Case, Setting
from cacheaware_sim.bench.sources import code_hash
from cacheaware_sim.bench.store import key_of
from cacheaware_sim.policies.registry import PEERS


@pytest.fixture
def case(small):
    return Case(workload=small, policy="wva-v1")


def test_what_is_written_is_read(store, case, result):
    assert store.read(case) is None

    store.write(case, result(97.5))

    assert store.read(case) == result(97.5)
    assert store.missing([case, replace(case, seed=1)]) == [replace(case, seed=1)]
    assert [path.suffix for path in store.folder.iterdir()] == [".json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"result": 3}'])
def test_a_file_that_is_no_result_is_as_good_as_none(store, case, result, text):
    store.write(case, result())
    store.path(case).write_text(text)

    assert store.read(case) is None
    assert store.missing([case]) == [case]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"policy": "wva-v2"},
        {"variant": "tuned"},
        {"variant": "3"},
        {"setting": Setting(coefficients="raw")},
        {"setting": Setting(cold_start_s=15)},
        {"policy": "cacheaware"},
        {"policy": "bound"},
    ],
    ids=str,
)
def test_each_option_is_part_of_the_name(tmp_path, case, change):
    assert key_of(replace(case, **change), tmp_path) != key_of(case, tmp_path)


def test_a_trace_is_known_by_its_bytes_and_not_by_its_place(tmp_path, case):
    row = "2023-11-16 18:15:{}.0,300,20\n"
    keys = []
    for name, seconds in (("a", 10), ("b", 10), ("c", 11)):
        folder = tmp_path / name
        (folder / "traces").mkdir(parents=True)
        text = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + row.format(seconds)
        (folder / "traces" / "x.csv").write_text(text)
        keys.append(key_of(replace(case, workload=replace(case.workload, trace="x.csv")), folder))

    assert keys[0] == keys[1] != keys[2]


def test_a_tuned_setting_that_changes_makes_its_runs_anew(tmp_path, case, monkeypatch):
    before = key_of(case, tmp_path)
    monkeypatch.setattr(
        store_module,
        "settings_of",
        lambda policy, variant: replace(PEERS[policy].default, loop_s=9),
    )
    assert key_of(case, tmp_path) != before


@pytest.mark.parametrize(
    ("change", "same"),
    [
        pytest.param(('"""Adds."""', '"""Sums up."""'), True, id="a docstring"),
        pytest.param(("# why", "# because"), True, id="a comment"),
        pytest.param(("a + b", "a - b"), False, id="code"),
        pytest.param(('"x"', '"y"'), False, id="a text that is used"),
    ],
)
def test_only_code_decides(tmp_path, change, same):
    path = tmp_path / "module.py"
    text = 'def add(a, b):\n    """Adds."""\n    # why\n    print("x")\n    return a + b\n'
    path.write_text(text)
    before = code_hash([path])

    path.write_text(text.replace(*change))

    assert (code_hash([path]) == before) is same


NOTHING = hashlib.sha256(sources._code("").encode()).hexdigest()


def loaded_by(module, package):
    """Files with code of a package that an import loads, in a process of its own."""
    code = (
        f"import json, sys, {module};"
        "print(json.dumps([m.__file__ for n, m in sys.modules.items()"
        f" if n.split('.')[0] in {package!r} and getattr(m, '__file__', None)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return {path for path in json.loads(done.stdout) if code_hash([Path(path)]) != NOTHING}


def known_sources():
    parts = (sources.peers_sources, sources.our_sources, sources.bounds_sources)
    return {str(path) for part in parts for path in part()}


def test_all_code_that_our_policy_loads_is_hashed():
    known = known_sources()
    loaded = loaded_by("cacheaware_sim.policies.ours", ("cacheaware", "cacheaware_sidecar"))

    assert loaded <= known


def test_all_code_that_peers_and_their_fleet_load_is_hashed_for_them():
    known = {str(path) for path in sources.peers_sources()}
    loaded = loaded_by(
        "cacheaware_sim.policies.registry, cacheaware_sim.fleet.fleet",
        ("cacheaware", "cacheaware_sidecar", "cacheaware_sim"),
    )

    assert {path.rsplit("/", 1)[1] for path in loaded - known} <= {"tuned.py"}


def test_all_code_that_a_run_loads_is_hashed():
    known = known_sources()
    loaded = loaded_by("cacheaware_sim.simulate, cacheaware_sim.bound", ("cacheaware_sim",))

    # how settings are found and timelines are written decides nothing; settings are in the name
    assert {path.rsplit("/", 1)[1] for path in loaded - known} <= {"tuned.py", "timeline_file.py"}


def test_a_change_of_ours_leaves_the_peers_results(tmp_path, monkeypatch, case):
    copied = tmp_path / "ours.py"
    shutil.copy(next(iter(sources.OUR_POLICY)), copied)
    ours = replace(case, policy="cacheaware")
    before = key_of(case, tmp_path), key_of(ours, tmp_path)
    copied.write_text(copied.read_text() + "\nCHANGED = 1\n")
    monkeypatch.setattr(sources, "our_sources", lambda: (copied,))
    sources.sources_hash.cache_clear()
    try:
        after = key_of(case, tmp_path), key_of(ours, tmp_path)
    finally:
        sources.sources_hash.cache_clear()

    assert after[0] == before[0]
    assert after[1] != before[1]
