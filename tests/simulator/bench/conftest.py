"""Workloads of seconds, and results that are planted instead of run."""

from dataclasses import replace

import pytest

from cacheaware_sim.bench import workloads
from cacheaware_sim.bench.matrix import Case
from cacheaware_sim.bench.results import table_of
from cacheaware_sim.bench.store import Store


@pytest.fixture(scope="session")
def small():
    """Half a minute of a generated trace."""
    return replace(
        workloads.PREFILL, name="small", title="small", trace="steady", to_s=30.0, constants=(2, 3)
    )


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "bench", tmp_path)


@pytest.fixture(scope="session")
def result():
    """The JSON of a run, as much of it as is read."""

    def make(attainment=99.0, gpu_hours=5.0, oracle=None, **fields):
        return {
            "attainment_percent": attainment,
            "gpu_hours": gpu_hours,
            "ttft_ms": {"p50": 120.0, "p90": 400.0, "p99": 1500.0},
            "tpot_ms": {"p50": 30.0, "p90": 50.0, "p99": 80.0},
            "lost": 0,
            "lost_to_scale_down": 0,
            "scale_events": 4,
            "flaps": 1,
            "trace_sha256": "ab" * 32,
            "oracle": oracle,
            **fields,
        }

    return make


@pytest.fixture(scope="session")
def planted(result):
    """A table of {policy or (policy, variant): points, one a seed}."""

    def make(points, load=workloads.CONV, oracle=(), bound=None):
        runs = [
            (
                Case(workload=load, policy=policy, variant=variant, seed=seed),
                result(*point),
            )
            for name, by_seed in points.items()
            for policy, variant in [name if isinstance(name, tuple) else (name, "default")]
            for seed, point in enumerate(by_seed)
        ]
        for target, attainment, hours in oracle:
            search = {"reached": attainment >= target, "target_attainment_percent": target}
            case = Case(workload=load, policy="oracle", target=target)
            runs.append((case, result(attainment, hours, search)))
        if bound is not None:
            runs.append((Case(workload=load, policy="bound"), {"gpu_hours": bound}))
        return table_of(load, runs[0][0].setting, runs)

    return make
