"""The examples in the help of the simulator's commands."""

import shlex
import subprocess
import sys
import time
import urllib.request

import pytest
from tests.operator.cli.conftest import commands, example, ran

from cacheaware_sim.settings import EXAMPLE


def test_every_command_has_an_example_of_itself():
    for path in commands():
        if path != ("simulate", "serve"):  # its help is its parser's, below
            assert tuple(example(*path)[: len(path)]) == path


@pytest.mark.parametrize("command", ["run", "bound", "validate"])
def test_the_example_of_the_help_runs(command, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert ran(capsys, *example("simulate", command))[0] == 0


@pytest.fixture
def engine(unused_tcp_port, capsys):
    """The mock engine as its help starts it, at another port."""
    code, out, _ = ran(capsys, "simulate", "serve", "--help")
    assert code == 0
    assert EXAMPLE in " ".join(out.split())
    words = shlex.split(EXAMPLE.replace("8000", str(unused_tcp_port)))[1:]
    program = [sys.executable, "-c", "from cacheaware.cli import main; main()", *words]
    process = subprocess.Popen(program)
    try:
        yield f"http://127.0.0.1:{unused_tcp_port}", process
    finally:
        process.terminate()
        process.wait(30)


def test_load_runs_as_its_help_says_against_the_engine_that_serves_as_its_help_says(engine, capsys):
    url, process = engine
    for _ in range(100):
        try:
            urllib.request.urlopen(f"{url}/health", timeout=1)
            break
        except OSError:
            assert process.poll() is None
            time.sleep(0.2)
    words = [word.replace("http://127.0.0.1:8000", url) for word in example("simulate", "load")]
    code, out, err = ran(capsys, *words)
    assert code == 0, err
    counts, numbers = (line.split("  ") for line in out.splitlines()[:2])
    assert counts[0] == "sent"
    assert int(numbers[0]) > 0
