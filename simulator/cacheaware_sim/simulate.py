"""One run of the simulator: a trace, a fleet, a policy; from a spec to a result."""

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from cacheaware_sim.bounds import oracle
from cacheaware_sim.bounds.trials import Watch, search
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.fleet.faults import FAULT_SETS
from cacheaware_sim.fleet.fleet import Fleet, FleetConfig
from cacheaware_sim.fleet.routing import ROUTERS
from cacheaware_sim.fleet.score import Score
from cacheaware_sim.fleet.timeline import Row
from cacheaware_sim.policies.constant import ConstantPolicy, Demand
from cacheaware_sim.policies.ours import CacheAwarePolicy
from cacheaware_sim.policies.policy import Policy
from cacheaware_sim.policies.registry import Registry, Setup
from cacheaware_sim.policies.warmed import shapes_of
from cacheaware_sim.profiles import Profile
from cacheaware_sim.run_result import RunResult
from cacheaware_sim.run_spec import GRACE_S, RunSpec, SpecError
from cacheaware_sim.timeline_file import timeline_writer
from cacheaware_sim.traces.formats import open_trace
from cacheaware_sim.traces.generate import MARGINALS, generate
from cacheaware_sim.traces.reshape import between, jittered, scaled
from cacheaware_sim.traces.trace import Notes, TraceRequest

OURS = "cacheaware"
GENERATED_S = 3600.0
"""Of a generated trace, where its end is not given."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What has to be known of a trace before it is played."""

    requests: int
    end_s: float
    """When the last one comes."""
    longest: int
    """Prompt and output tokens of the longest."""
    prefixes: bool
    """Whether prompts share anything."""


def run(
    spec: RunSpec,
    *,
    settings: object = None,
    timeline: Path | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> RunResult:
    """Play the trace. It is read twice and never held: memory does not grow with it.

    The oracle plays it several times, and its cheapest run that reaches its target counts.

    Args:
        spec: What to run.
        settings: Of a peer, instead of its variant's: for tuning.
        timeline: Where to write the timeline as CSV.
        on_progress: Told the share of the trace that is over, 0..1.

    Raises:
        SpecError: One line: no such trace or policy, or a part of the trace with nothing in it.
        TraceError: One line: the trace can't be read.
        OSError: The timeline can't be written.
    """
    began = time.process_time()
    notes = Notes()
    survey = surveyed(spec, notes)
    policy = policy_of(spec, settings)
    start_replicas = start_replicas_of(spec, policy)
    engine = engine_of(spec.profile(), survey, spec.prefix_caching)

    def play(policy: Policy, watch: Watch) -> Score:
        def on_row(row: Row) -> None:
            watch(fleet.score, row)
            if on_progress is not None:
                on_progress(row.at_s / survey.end_s)

        fleet = Fleet(
            config_of(spec, engine, start_replicas), policy, ROUTERS[spec.router](spec.seed), on_row
        )
        return fleet.run(requests_of(spec))

    with ExitStack() as stack:
        write = stack.enter_context(timeline_writer(timeline)) if timeline else _drop
        if isinstance(policy, oracle.OraclePolicy):
            target = spec.target_attainment / 100
            trial, found = search(policy.known, target, survey.requests, play)
            score = trial.score
            for row in trial.rows:
                write(row)
        else:
            score, found = play(policy, lambda _, row: write(row)), None
    return RunResult(
        spec=spec,
        score=score,
        search=found,
        start_replicas=start_replicas,
        prefix_caching=engine.prefix_caching,
        span_s=survey.end_s,
        trace_sha256=None if spec.generator else sha256_of(spec.trace),
        notes=notes,
        timeline_file=str(timeline) if timeline else None,
        cpu_seconds=time.process_time() - began,
    )


def _drop(row: Row) -> None:
    """Where no timeline is asked for."""


def config_of(spec: RunSpec, engine: EngineConfig, start_replicas: int) -> FleetConfig:
    """The fleet of a run."""
    return FleetConfig(
        engine=engine,
        model=spec.model,
        start_replicas=start_replicas,
        limits=spec.limits,
        cold_start_s=(spec.cold_start_s, spec.cold_start_deviation_s),
        grace_s=GRACE_S[spec.shutdown],
        targets=spec.targets,
        faults=FAULT_SETS[spec.faults],
        seed=spec.seed,
    )


def requests_of(spec: RunSpec, notes: Notes | None = None) -> Iterator[TraceRequest]:
    """The trace as it is played, from its beginning; the same each time."""
    trace = _source(spec, notes)
    if spec.jitter_s and spec.scale == 1:
        trace = jittered(trace, jitter_s=spec.jitter_s, seed=spec.seed)
    return between(scaled(trace, spec.scale, seed=spec.seed), spec.from_s, spec.to_s)


def _source(spec: RunSpec, notes: Notes | None) -> Iterator[TraceRequest]:
    if spec.generator is not None:
        seconds = GENERATED_S if math.isinf(spec.to_s) else spec.to_s
        return generate(spec.generator, seconds, seed=spec.seed)
    if not spec.trace.exists():
        there = ", ".join(MARGINALS)
        raise SpecError(f"trace {spec.trace}: must be a file, or one of the generators {there}")
    block_size = spec.profile().block_size
    return open_trace(spec.trace, spec.format, seed=spec.seed, block_size=block_size, notes=notes)


def surveyed(spec: RunSpec, notes: Notes | None = None) -> Survey:
    """What has to be known of the trace of a spec.

    Raises:
        SpecError: No such trace, or a part of the trace with nothing in it.
        TraceError: The trace can't be read.
    """
    survey = survey_of(requests_of(spec, notes))
    if not survey.requests:
        raise SpecError(
            f"from {spec.from_s:g}, to {spec.to_s:g}: must be a part of the trace with requests"
        )
    return survey


def survey_of(trace: Iterator[TraceRequest]) -> Survey:
    """One pass over a trace."""
    requests, end_s, longest, prefixes = 0, 0.0, 0, False
    for request in trace:
        requests += 1
        end_s = request.at
        longest = max(longest, request.prompt_tokens + request.output_tokens)
        prefixes = prefixes or bool(request.prefix)
    return Survey(requests, end_s, longest, prefixes)


def engine_of(profile: Profile, survey: Survey, prefix_caching: str = "auto") -> EngineConfig:
    """The engine of a profile that takes the trace's longest request, if its pool can hold it.

    `auto`: the prefix cache is on where prompts share anything. Elsewhere it would find nothing but
    the blocks of preempted requests.
    """
    pool = (profile.num_blocks - 1) * profile.block_size
    return profile.engine(
        max_model_len=min(max(profile.max_model_len, survey.longest), pool),
        prefix_caching=survey.prefixes if prefix_caching == "auto" else prefix_caching == "on",
    )


def policies() -> Registry:
    """All policies by their names: the peers, the constants, ours."""
    registry = Registry()
    registry.register(OURS, ours_of)
    registry.register(oracle.NAME, oracle.oracle_of)
    return registry


def ours_of(setup: Setup) -> CacheAwarePolicy:
    """Our policy with its defaults; its sidecars warm up the engines of the run."""
    return CacheAwarePolicy(setup.limits, shapes=shapes_of(setup.profile.engine()))


def policy_of(spec: RunSpec, settings: object = None) -> Policy:
    """The policy of a run, new; of a peer by other settings than a variant's, where given.

    Raises:
        SpecError: No such name: the line lists them all.
    """
    setup = setup_of(spec)
    try:
        return policies().make(
            spec.policy, setup, "tuned" if spec.variant == "tuned" else "default", settings
        )
    except ValueError as error:
        raise SpecError(str(error)) from error


def setup_of(spec: RunSpec) -> Setup:
    """What a run gives to its policy."""

    def demand() -> Iterator[Demand]:
        return ((one.at, one.prompt_tokens, one.output_tokens) for one in requests_of(spec))

    return Setup(
        limits=spec.limits,
        profile=spec.profile(),
        targets=spec.targets,
        demand=demand,
        cold_start_s=(spec.cold_start_s, spec.cold_start_deviation_s),
    )


def start_replicas_of(spec: RunSpec, policy: Policy) -> int:
    """How many pods serve when the trace begins: of a constant policy all that it will ever have.

    Its number is the fleet that somebody has chosen, not one that it has to grow into.
    """
    if spec.start_replicas is None and isinstance(policy, ConstantPolicy):
        return policy.replicas
    return spec.first_replicas


def sha256_of(path: Path) -> str:
    """The hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
