"""The same load on the same engines in the simulator: what the cluster is held against."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median_low, pstdev
from typing import Any

from tests.e2e.trace.agreement import Moment, mean_of

from cacheaware_sim import settings
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.fleet.fleet import Fleet, FleetConfig
from cacheaware_sim.fleet.routing import ROUTERS
from cacheaware_sim.fleet.score import Score
from cacheaware_sim.fleet.timeline import Row
from cacheaware_sim.load_trace import LoadTrace
from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.policies.ours import CacheAwarePolicy
from cacheaware_sim.policies.policy import Limits
from cacheaware_sim.policies.warmed import shapes_of

ENGINE = (
    # A cache of 32,000 tokens, and iterations of 60 ms and more: what two cores bear in real time.
    *("--profile", "llama-3.1-8b-l40s", "--time-scale", "0.4", "--blocks", "2000"),
    *("--stream-interval", "8"),
)
"""Of the mock engines; the model in the simulator is made of the same."""
LIMITS = Limits(1, 6)
START_REPLICAS = 2
TARGETS = LatencyTargets(ttft_s=2.5, tpot_s=0.25)
"""1 s and 100 ms at the engines' speed of 0.4."""
SEEDS = range(5)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the simulator."""

    seed: int
    moments: list[Moment]
    score: Score

    @property
    def mean_replicas(self) -> float:
        """Of what was asked for."""
        return mean_of(one.replicas for one in self.moments)


def simulated(trace: Path, cold_starts_s: Sequence[float], seed: int) -> Run:
    """Play the trace with our policy, by its defaults.

    Args:
        trace: What the load generator was given.
        cold_starts_s: From created to Ready, of the cluster's pods: an input, not a result.
        seed: Of cold starts and routing.
    """
    engine = engine_of()
    moments: list[Moment] = []
    fleet = Fleet(
        FleetConfig(
            engine=engine,
            start_replicas=START_REPLICAS,
            limits=LIMITS,
            cold_start_s=(fmean(cold_starts_s), pstdev(cold_starts_s)),
            targets=TARGETS,
            seed=seed,
        ),
        CacheAwarePolicy(LIMITS, shapes=shapes_of(engine)),
        # kube-proxy chooses any pod for a new connection.
        ROUTERS["random"](seed),
        lambda row: moments.append(moment_of(row)),
    )
    score = fleet.run(LoadTrace(path=trace).requests())
    return Run(seed, moments, score)


def engine_of(flags: Sequence[str] = ENGINE) -> EngineConfig:
    """The engine that the mock makes of these flags; the fleet draws its cold starts."""
    return replace(settings.parse(flags, {}).config, cold_start_s=0.0)


def moment_of(row: Row) -> Moment:
    """A row of the simulator's timeline."""
    return Moment(
        at_s=row.at_s,
        replicas=row.replicas,
        pods=row.starting + row.serving + row.cordoned + row.terminating,
        serving=row.serving,
        running=row.running,
        waiting=row.waiting,
    )


def middle(runs: Sequence[Run]) -> Run:
    """The run whose mean replicas are the median."""
    mean = median_low([run.mean_replicas for run in runs])
    return next(run for run in runs if run.mean_replicas == mean)


def figures(score: Score) -> dict[str, Any]:
    """What clients saw, under the names that the load generator's result has."""
    return {
        "sent": score.requests,
        "lost": score.lost + score.unfinished,
        "attainment_percent": 100 * score.attainment,
        "ttft_p50_s": score.ttft_s.at(0.5),
        "ttft_p90_s": score.ttft_s.at(0.9),
        "tpot_p50_s": score.tpot_s.at(0.5),
    }
