"""`cacheaware probe canary` against the mock engine."""

import asyncio
import json
import math
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from tests.operator.cli.conftest import ran
from tests.sidecar.canary.fakes import baseline, run

from cacheaware.cli.errors import BadInputError
from cacheaware.cli.probe_canary import keep
from cacheaware.cli.probe_canary_runs import Repeat
from cacheaware.cli.probe_canary_view import show_runs
from cacheaware_sidecar.canary.ask import Asked
from cacheaware_sidecar.canary.compare import Comparison
from cacheaware_sim.engine import Engine
from cacheaware_sim.faults import Faults
from cacheaware_sim.metrics_page import MetricsPage
from cacheaware_sim.openai_api import Served
from cacheaware_sim.profiles import PROFILES
from cacheaware_sim.real_time import RealTimeEngine
from cacheaware_sim.server import Server


@pytest.fixture
def engine():
    """A mock engine in a thread: the command has a loop of its own."""
    loop, ready, found = asyncio.new_event_loop(), threading.Event(), {}

    async def serve():
        config = PROFILES["tiny"].engine(cold_start_s=0.0)
        live = RealTimeEngine(Engine(config, time.monotonic()))
        served = Served(model="mock", max_model_len=config.max_model_len, answer_tokens=8)
        page = MetricsPage(model_name="mock", config=config, created=1.7e9)
        found["faults"] = Faults(time.monotonic)
        server = Server(live, served, page, api_key="secret", faults=found["faults"])
        runner = web.AppRunner(server.app(), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        found["url"] = f"http://127.0.0.1:{runner.addresses[0][1]}"
        iterate, found["stop"] = asyncio.create_task(live.run()), asyncio.Event()
        ready.set()
        await found["stop"].wait()
        iterate.cancel()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait()
    yield found
    loop.call_soon_threadsafe(found["stop"].set)
    thread.join()
    loop.close()


@pytest.fixture
def ask(engine, tmp_path, capsys):
    key = tmp_path / "key"
    key.write_text("secret")

    def probe(*more):
        words = ("probe", "canary", "--engine", engine["url"], "--token-file", str(key), *more)
        return ran(capsys, *words)

    return probe


@pytest.fixture
def healthy(ask, tmp_path):
    file = str(tmp_path / "healthy.json")
    assert ask("--save", file)[0] == 0
    return file


def test_a_baseline_is_made_of_repeats_with_and_without_company(ask, tmp_path):
    file = tmp_path / "healthy.json"
    code, out, _ = ask("--save", str(file), "-o", "json")
    told, kept = json.loads(out), json.loads(file.read_text())

    assert code == 0
    assert (told["model"], told["engine"], told["version"]) == ("mock", "vllm", "0.33.0")
    assert told["way"] == "echo"
    assert [one["beside"] for one in told["runs"]] == [0, 3] * 4
    assert told["drifted"] is None
    assert len(kept["runs"]) == 8
    assert kept["prompt"].startswith("The lighthouse keeper")


def test_the_same_model_has_not_drifted(ask, healthy):
    code, out, _ = ask("--baseline", healthy)

    assert code == 0
    assert "canary-drift" not in out
    assert out.endswith("\nNo drift: all runs are within the tolerance.\n")
    told = json.loads(ask("--baseline", healthy, "-o", "json")[1])
    assert told["drifted"] is False
    assert len(told["runs"]) == 3
    assert told["runs"][0]["difference_nats"] < 1e-5


def test_where_a_baseline_was_kept_is_told(ask, tmp_path):
    file = tmp_path / "kept.json"
    _, out, _ = ask("--save", str(file))
    assert out.endswith(f"\n{file}: kept as a baseline of 8 runs\n")
    assert "No drift" not in out


def test_a_drift_of_fewer_runs_than_it_takes_is_told_and_no_finding(capsys):
    healthy = baseline()
    runs = [Repeat(0, Asked(identity=healthy.identity, way=healthy.way, run=run()))] * 3
    compared = [Comparison(tokens=9, mean=mean, tolerance=0.1) for mean in (0.01, 0.5, 0.01)]
    show_runs(healthy, runs, compared, [], is_compared=True, saved=None)
    assert "1 of 3 runs have drifted, not all of the last 3" in capsys.readouterr().out


def test_a_model_adrift_is_found(ask, healthy, engine):
    engine["faults"].set({"model": "drift"})
    code, out, _ = ask("--baseline", healthy, "-o", "json")
    told = json.loads(out)

    assert code == 1
    assert told["drifted"] is True
    assert [one["id"] for one in told["findings"]] == ["canary-drift"]
    assert told["runs"][-1]["difference_nats"] == pytest.approx(0.2, abs=0.05)
    code, out, _ = ask("--baseline", healthy)
    assert code == 1
    assert "canary-drift" in out


def test_a_prompt_of_ones_own_is_in_the_baseline(ask, tmp_path):
    words, file = tmp_path / "words.txt", tmp_path / "own.json"
    words.write_text("words of my own that are asked for")
    assert ask("--prompt", str(words), "--save", str(file), "--repeats", "4")[0] == 0

    assert json.loads(file.read_text())["prompt"] == words.read_text()
    assert ask("--baseline", str(file), "--model", "mock")[0] == 0


def test_another_version_is_not_compared(ask, healthy, tmp_path):
    other = tmp_path / "other.json"
    kept = json.loads(Path(healthy).read_text())
    other.write_text(json.dumps({**kept, "version": "0.1"}))
    code, _, err = ask("--baseline", str(other))

    assert code == 2
    assert "not comparable: the baseline is of version 0.1, this is 0.33.0" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--baseline", "none.json"), "--baseline none.json: can't be read"),
        (("--baseline", "KEY"), "it is no JSON"),
        (("--baseline", "HUGE"), "more than 524,288 bytes"),
        (("--prompt", "none.txt"), "--prompt none.txt: can't be read"),
        (("--prompt", "LONG"), "has 2,049 characters; allowed: 1 to 2,048"),
        (("--prompt", "KEY", "--baseline", "KEY"), "--prompt goes without --baseline"),
        (("--save", "KEY"), "can't be written: File exists"),
        (("--timeout", "0"), "--timeout is 0.0; allowed"),
        (("--ca-file", "none.pem"), "--ca-file: 'none.pem' can't be used"),
        (("--engine", "ftp://x"), "--engine is 'ftp://x': allowed are http://HOST[:PORT]"),
        (("--engine", "http://127.0.0.1:1"), "http://127.0.0.1:1: refused"),
        (("--model", "other"), "The model `other` does not exist"),
    ],
)
def test_bad_input_is_one_line(ask, tmp_path, words, said):
    (tmp_path / "long").write_text("x" * 2049)
    (tmp_path / "huge").write_text(" " * 524_289)
    files = {
        "HUGE": str(tmp_path / "huge"),
        "KEY": str(tmp_path / "key"),
        "LONG": str(tmp_path / "long"),
    }
    code, out, err = ask(*(files.get(word, word) for word in words))

    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_key_is_said_to_be_missing_and_never_shown(engine, capsys):
    code, _, err = ran(capsys, "probe", "canary", "--engine", engine["url"])

    assert code == 2
    assert "an API key is needed" in err


def test_a_broken_model_is_no_baseline(tmp_path):
    broken = replace(baseline(), runs=(run(shift=math.nan),) * 4)

    with pytest.raises(BadInputError, match="this is no healthy model"):
        keep(str(tmp_path / "new.json"), broken)
    assert not (tmp_path / "new.json").exists()
