"""Logs as the model itself would have written them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.profiles import PROFILES
from cacheaware_sim.validate.replay import replay
from cacheaware_sim.validate.report import RUNS
from cacheaware_sim.validate.request_logs import ServedRequest


@pytest.fixture(scope="session")
def arrivals() -> tuple[ServedRequest, ...]:
    """Forty requests within ten seconds; when they were served is not told."""
    return tuple(
        ServedRequest(n / 4, 0.0, 0.0, 200 + 37 * n % 900, 40 + 53 * n % 160) for n in range(40)
    )


@pytest.fixture(scope="session")
def serve(arrivals) -> Callable[[str], tuple[ServedRequest, ...]]:
    """The requests as the engine of a profile serves them."""

    def served(name: str) -> tuple[ServedRequest, ...]:
        profile = PROFILES[name]
        config = EngineConfig(
            cost=profile.cost,
            num_blocks=profile.num_blocks,
            max_model_len=profile.max_model_len,
            max_num_seqs=profile.max_num_seqs,
        )
        return replay(config, arrivals)[0]

    return served


def row(request: ServedRequest) -> dict[str, float]:
    return {
        "input_toks": request.prompt_tokens,
        "output_toks": request.output_tokens,
        "queued_ts": 500 + request.queued_at,
        "first_token_ts": 500 + request.first_token_at,
        "last_token_ts": 500 + request.last_token_at,
    }


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    """Writes rows or requests to a log."""

    def written(rows, name: str = "requests.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        lines = [json.dumps(row(one) if isinstance(one, ServedRequest) else one) for one in rows]
        path.write_text("\n".join(lines) + "\n")
        return path

    return written


@pytest.fixture
def logs(write, serve) -> Path:
    """A folder with a log of each run, as the model serves it."""
    paths = [write(serve(run.profile), f"{run.folder}/requests.jsonl") for run in RUNS]
    return paths[0].parents[1]
