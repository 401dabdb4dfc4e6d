"""Drives engines in virtual time, and mock engines as processes."""

from collections.abc import Callable, Iterable

import pytest

from cacheaware_sim.engine import Engine, StepResult
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.request import Request


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
