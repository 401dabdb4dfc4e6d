"""A model whose times are easy to work out by hand, and a small trace."""

from dataclasses import replace
from pathlib import Path

import pytest

from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.profiles import PROFILES, Profile
from cacheaware_sim.run_spec import RunSpec


@pytest.fixture(scope="session")
def profile() -> Profile:
    """50 ms for 1,000 prompt tokens; 10 ms an iteration, and 0.1 ms for each request in it."""
    cost = IterationCost(
        c0_ms=10, c1_ms_per_seq=0.1, c2_ms_per_ktok=0, a1_ms_per_ktok=50, a2_ms_per_mtok2=0
    )
    base = replace(PROFILES["tiny"], cost=cost, num_blocks=100_000, block_size=16)
    return replace(base, max_num_seqs=100)


@pytest.fixture(scope="session")
def bursts(tmp_path_factory) -> Path:
    """Ten minutes: a request each 2 s, and after 200 s and 500 s ten a second for 20 s."""
    times = [2.0 * n for n in range(300)]
    times += [start + n / 10 for start in (200, 500) for n in range(200)]
    rows = [f"2023-11-16 18:{15 + at // 60:02.0f}:{at % 60:010.7f},2000,40" for at in sorted(times)]
    path = tmp_path_factory.mktemp("traces") / "bursts.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def spec(bursts):
    """Options for a run on the small trace."""

    def make(**options) -> RunSpec:
        given = {"trace": bursts, "policy": "oracle", "cold_start_s": 30.0, "start_replicas": 2}
        return RunSpec(**{**given, **options})

    return make
