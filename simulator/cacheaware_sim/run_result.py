"""What one run of the simulator has brought, under the keys of its JSON."""

from dataclasses import dataclass
from typing import Any

from cacheaware_sim.bounds.trials import Search
from cacheaware_sim.fleet.pod import Stage
from cacheaware_sim.fleet.quantiles import Quantiles
from cacheaware_sim.fleet.score import Score
from cacheaware_sim.run_spec import RunSpec
from cacheaware_sim.traces.trace import Notes

PERCENTILES = (50, 90, 99)
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A score, and what it is the score of."""

    spec: RunSpec
    score: Score
    search: Search | None = None
    """Of the oracle."""
    start_replicas: int
    prefix_caching: bool
    span_s: float
    """From the start of the trace to its last request."""
    trace_sha256: str | None
    """Of its file; None of a generated one."""
    notes: Notes
    timeline_file: str | None
    cpu_seconds: float

    @property
    def gpu_hours(self) -> float:
        """Of all pods, from ordered to gone, until the last request came."""
        return self.score.total_pod_seconds * self.spec.tp / HOUR_S

    def hours(self, stage: Stage) -> float:
        """GPU-hours of pods in one stage."""
        return self.score.pod_seconds[stage] * self.spec.tp / HOUR_S

    def as_json(self) -> dict[str, Any]:
        """Stable keys; null is unknown."""
        spec, score = self.spec, self.score
        return {
            "policy": spec.policy,
            "variant": spec.variant,
            "attainment_percent": round(100 * score.attainment, 3),
            "gpu_hours": round(self.gpu_hours, 4),
            "requests": score.requests,
            "finished": score.finished,
            "lost": score.lost,
            "lost_to_scale_down": score.lost_to_scale_down,
            "never_fit": score.never_fit,
            "unfinished": score.unfinished,
            "preemptions": score.preemptions,
            "ttft_ms": percentiles_ms(score.ttft_s),
            "tpot_ms": percentiles_ms(score.tpot_s),
            "scale_events": len(score.changes),
            "flaps": score.flaps,
            "starting_gpu_hours": round(self.hours(Stage.STARTING), 4),
            "cordoned_gpu_hours": round(self.hours(Stage.CORDONED), 4),
            "terminating_gpu_hours": round(self.hours(Stage.TERMINATING), 4),
            "mean_replicas": self._mean_replicas(),
            "output_tokens": score.output_tokens,
            "timeline_file": self.timeline_file,
            "trace": str(spec.trace),
            "trace_sha256": self.trace_sha256,
            "trace_seconds": round(self.span_s, 3),
            "zero_outputs": self.notes.zero_outputs,
            "scale": spec.scale,
            "jitter_s": spec.jitter_s,
            "seed": spec.seed,
            "profile": spec.profile().name,
            "coefficients": spec.coefficients,
            "cold_start_s": spec.cold_start_s,
            "start_replicas": self.start_replicas,
            "slo_ttft_ms": spec.slo_ttft_ms,
            "slo_tpot_ms": spec.slo_tpot_ms,
            "router": spec.router,
            "shutdown": spec.shutdown,
            "prefix_caching": self.prefix_caching,
            "faults": spec.faults,
            "oracle": self.search.as_json() if self.search else None,
            "cpu_seconds": round(self.cpu_seconds, 2),
        }

    def _mean_replicas(self) -> float | None:
        """Pods that cost, over the time of the trace."""
        return round(self.score.total_pod_seconds / self.span_s, 3) if self.span_s else None


def percentiles_ms(some: Quantiles) -> dict[str, float | None]:
    """p50, p90, p99 in milliseconds; None of nothing."""
    found = {f"p{percent}": some.at(percent / 100) for percent in PERCENTILES}
    return {name: None if at is None else round(at * 1e3, 2) for name, at in found.items()}
