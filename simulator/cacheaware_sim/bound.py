"""The lower bound of a spec: what no policy can stay below on its trace."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cacheaware_sim.bounds.lower_bound import LowerBound, lower_bound
from cacheaware_sim.bounds.oracle import BIN_S
from cacheaware_sim.bounds.work import Curves, curves_of, jobs_of
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.run_result import HOUR_S
from cacheaware_sim.run_spec import RunSpec
from cacheaware_sim.simulate import Survey, engine_of, requests_of, sha256_of, surveyed
from cacheaware_sim.traces.trace import TraceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundResult:
    """A bound, and what it is the bound of."""

    spec: RunSpec
    min_replicas: float
    survey: Survey
    prefix_caching: bool
    work: Curves
    bound: LowerBound
    trace_sha256: str | None
    cpu_seconds: float

    def as_json(self) -> dict[str, Any]:
        """Stable keys; null is unknown."""
        spec, bound = self.spec, self.bound
        hour = HOUR_S / spec.tp
        seconds = len(bound.replicas) * self.work.bin_s
        return {
            "gpu_hours": round(bound.pod_seconds / hour, 4),
            "starting_gpu_hours": round(bound.starting_seconds / hour, 4),
            "work_gpu_hours": round(sum(self.work.arrived) / hour, 4),
            "mean_replicas": round(bound.pod_seconds / seconds, 3),
            "peak_replicas": round(max(bound.replicas), 3),
            "requests": self.survey.requests,
            "trace": str(spec.trace),
            "trace_sha256": self.trace_sha256,
            "trace_seconds": round(self.survey.end_s, 3),
            "bin_s": self.work.bin_s,
            "scale": spec.scale,
            "seed": spec.seed,
            "profile": spec.profile().name,
            "coefficients": spec.coefficients,
            "cold_start_s": spec.cold_start_s,
            "start_replicas": spec.first_replicas,
            "min_replicas": self.min_replicas,
            "slo_ttft_ms": spec.slo_ttft_ms,
            "slo_tpot_ms": spec.slo_tpot_ms,
            "prefix_caching": self.prefix_caching,
            "cpu_seconds": round(self.cpu_seconds, 2),
        }


def bound_of(spec: RunSpec, min_replicas: float = 0.0) -> BoundResult:
    """The fewest GPU-hours for the trace of a spec; its policy and its limits say nothing here.

    Args:
        spec: The trace, the profile, the targets, the cold start.
        min_replicas: The least that serve at any time.

    Raises:
        SpecError: One line: no such trace, or a part of the trace with nothing in it.
        TraceError: One line: the trace can't be read.
    """
    began = time.process_time()
    survey = surveyed(spec)
    profile = spec.profile()
    engine = engine_of(profile, survey, spec.prefix_caching)
    jobs = jobs_of(served(spec, engine), profile.block_size, caching=engine.prefix_caching)
    work = curves_of(jobs, profile, spec.targets, BIN_S)
    bound = lower_bound(
        work,
        spec.cold_start_s,
        start_replicas=spec.first_replicas,
        min_replicas=min_replicas,
    )
    return BoundResult(
        spec=spec,
        min_replicas=min_replicas,
        survey=survey,
        prefix_caching=engine.prefix_caching,
        work=work,
        bound=bound,
        trace_sha256=None if spec.generator else sha256_of(spec.trace),
        cpu_seconds=time.process_time() - began,
    )


def served(spec: RunSpec, engine: EngineConfig) -> Iterator[TraceRequest]:
    """The requests of a trace that a pod can hold; the others are lost whatever the policy."""
    longest = engine.max_model_len
    return (one for one in requests_of(spec) if one.prompt_tokens + one.output_tokens <= longest)
