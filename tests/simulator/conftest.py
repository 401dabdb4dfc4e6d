"""Drives engines in virtual time, and mock engines as processes."""

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pytest

from cacheaware.cli import main
from cacheaware_sim.engine import Engine, StepResult
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.request import Request


@pytest.fixture
def command(capsys) -> Callable[..., tuple[int, str, str]]:
    """(exit code, stdout, stderr) of a call of `cacheaware simulate`."""

    def call(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["simulate", *map(str, words)])
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return call


@pytest.fixture(scope="session")
def flat() -> IterationCost:
    """Every iteration takes 10 ms."""
    return IterationCost(
        c0_ms=10, c1_ms_per_seq=0, c2_ms_per_ktok=0, a1_ms_per_ktok=0, a2_ms_per_mtok2=0
    )


@pytest.fixture(scope="session")
def config(flat) -> Callable[..., EngineConfig]:
    """An engine like the real one that was watched: 64 blocks of 32, 8 sequences."""

    def make(**changes) -> EngineConfig:
        values = {
            "cost": flat,
            "num_blocks": 64,
            "block_size": 32,
            "max_model_len": 1024,
            "max_num_seqs": 8,
            "max_num_batched_tokens": 2048,
        }
        return EngineConfig(**{**values, **changes})

    return make


@pytest.fixture(scope="session")
def run() -> Callable[..., tuple[float, list[StepResult]]]:
    """Submits, and iterates until the engine is idle: the time then, and all results."""

    def drive(
        engine: Engine, requests: Iterable[Request] = (), now: float = 0.0, limit: int = 100_000
    ) -> tuple[float, list[StepResult]]:
        for request in requests:
            engine.submit(request, now)
        results = [engine.step(now)]
        while (duration := results[-1].duration_s) is not None:
            now += duration
            results.append(engine.step(now))
            assert len(results) < limit, "the engine does not come to an end"
        return now, results

    return drive


@dataclass
class Mock:
    """A mock engine as a process of its own."""

    process: subprocess.Popen
    url: str

    def get(self, path: str, timeout: float = 5.0) -> tuple[int, str]:
        """(status, body); 0 where the connection is refused."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except urllib.error.URLError:
            return 0, ""

    def ready(self, within_s: float = 20.0) -> float:
        """Wait for /health; the seconds it took."""
        started = time.monotonic()
        while self.get("/health")[0] != 200:
            assert time.monotonic() - started < within_s
            assert self.process.poll() is None
            time.sleep(0.02)
        return time.monotonic() - started

    def terminate(self) -> None:
        """SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def exit_code(self, within_s: float = 10.0) -> int:
        """Wait for its end."""
        return self.process.wait(within_s)


@pytest.fixture
def mock() -> Iterator[Callable[..., Mock]]:
    """Starts mock engines on loopback; what still runs at the end is killed."""
    started: list[Mock] = []

    def start(*flags: str, ready: bool = True) -> Mock:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "cacheaware_sim", "serve", "--host", "127.0.0.1"]
        process = subprocess.Popen(
            [*command, "--port", str(port), "--cold-start", "0", *flags],
            stderr=subprocess.DEVNULL,
        )
        engine = Mock(process, f"http://127.0.0.1:{port}")
        started.append(engine)
        if ready:
            engine.ready()
        return engine

    yield start
    for engine in started:
        if engine.process.poll() is None:
            engine.process.kill()
        engine.process.wait(10)
