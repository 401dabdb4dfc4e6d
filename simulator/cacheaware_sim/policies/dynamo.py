"""NVIDIA Dynamo's planner for aggregated engines: dynamo.

Source: ai-dynamo/dynamo, components/src/dynamo/planner: core/load_scaling.py (0c6da1e, the
thresholds and the rules of when only to observe), core/throughput_scaling.py (0c9050c),
core/load/predictors.py (260b6ae), config/defaults.py (1ca6015).

Default: threshold mode ("optimization_target: throughput"), every 5 s. One more pod if on any
engine (tokens in cache + queued prompt tokens) / capacity > 1, one less if on all < 0.6, nothing
while a scaling is in progress or an engine does not report. With throughput scaling: the same on
top of a lower bound made every 180 s: a Kalman forecast of requests and their lengths over the rate
at which a profile keeps the latency targets. The bound also lifts a fleet that the thresholds would
leave alone, as in the planner's SLA mode.

What is approximated. Queued prompt tokens come from Dynamo's forward-pass metrics; here they are
waiting requests x the mean prompt of the last 180 s (3,000 tokens, Dynamo's own default, before any
is known). Prompts that are in the middle of their prefill count as cache in use. Requests are
counted at the engines, not at Dynamo's front end. The performance model is the profile instead of a
regression over it. The budget of 8 GPUs is the limit of the run; the 30 minutes after which an
unfinished scaling is given up are never reached.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies.capacity import LatencyTargets, Lengths, decode_ms, kv_tokens
from cacheaware_sim.policies.kalman import PLANNER_NOISE, Forecaster, Noise
from cacheaware_sim.policies.policy import Every, Limits, Orders, hold, ready
from cacheaware_sim.policies.traffic import Traffic, TrafficMeter
from cacheaware_sim.profiles import Profile


@dataclass(frozen=True, slots=True)
class DynamoSettings:
    """PlannerConfig."""

    load_interval_s: float = 5.0
    up_threshold: float = 1.0
    down_threshold: float = 0.6
    enable_throughput_scaling: bool = False
    throughput_interval_s: float = 180.0
    noise: Noise = PLANNER_NOISE
    prompt_tokens_prior: float = 3000.0


DEFAULT = DynamoSettings()


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """One engine; tokens."""

    in_use: float
    queued_prompt: float
    capacity: float

    def utilization(self) -> float:
        """Of the cache, were the queue in it."""
        return (self.in_use + self.queued_prompt) / self.capacity


def threshold_step(loads: Sequence[EngineLoad], settings: DynamoSettings) -> int:
    """+1, -1 or 0 pods.

    >>> busy, half = EngineLoad(9e4, 2e4, 1e5), EngineLoad(7e4, 0, 1e5)
    >>> idle = EngineLoad(0, 0, 1e5)
    >>> [threshold_step(loads, DynamoSettings())
    ...  for loads in ((busy, idle), (half, idle), (idle, idle), (idle,))]
    [1, 0, -1, 0]
    """
    utilizations = [load.utilization() for load in loads]
    if any(utilization > settings.up_threshold for utilization in utilizations):
        return 1
    all_low = all(utilization < settings.down_threshold for utilization in utilizations)
    return -1 if all_low and len(loads) > 1 else 0


def engine_requests_per_s(
    profile: Profile, lengths: Lengths, hit_ratio: float, targets: LatencyTargets
) -> float:
    """The highest rate at which one engine keeps both targets, by a sweep over batch sizes.

    In a steady state each of B decodes brings prompt/output tokens of prefill into every iteration;
    by Little's law the rate is B / (output x iteration). Hits take prefill away, not cache. If a
    batch of 1 breaks the targets, its rate is what there is.
    """
    prompt = lengths.prompt * (1 - hit_ratio)
    most = min(kv_tokens(profile) / max(lengths.context, 1.0), profile.max_num_seqs)
    best = 0.0
    for batch in range(1, max(1, int(most)) + 1):
        chunk = batch * prompt / lengths.output
        iteration_ms = decode_ms(profile, batch, lengths.context) + _prefill_ms(profile, chunk)
        ttft_ms = _ttft_ms(profile, prompt, batch, lengths.context)
        kept = iteration_ms <= targets.tpot_s * 1e3 and ttft_ms <= targets.ttft_s * 1e3
        if batch > 1 and (not kept or chunk + batch > profile.max_num_batched_tokens):
            break
        best = max(best, 1e3 * batch / (lengths.output * iteration_ms))
    return best


def _prefill_ms(profile: Profile, tokens: float) -> float:
    return profile.cost.a1_ms_per_ktok * tokens / 1e3


def _ttft_ms(profile: Profile, prompt: float, batch: int, context: float) -> float:
    iterations = math.ceil(max(prompt, 1.0) / profile.max_num_batched_tokens)
    attention_ms = profile.cost.a2_ms_per_mtok2 * prompt**2 / 1e6
    decodes_ms = iterations * decode_ms(profile, batch, context)
    return decodes_ms + _prefill_ms(profile, prompt) + attention_ms


class TrafficForecast:
    """Requests, prompt and output lengths, hit ratio of the next interval."""

    def __init__(self, noise: Noise) -> None:
        self._requests = Forecaster(noise)
        self._prompt = Forecaster(noise)
        self._output = Forecaster(noise)
        self._hit_ratio = Forecaster(noise)

    def observe(self, traffic: Traffic) -> None:
        """The interval that ended; lengths that nobody knows are not observed."""
        self._requests.observe(traffic.arrived)
        for forecaster, value in (
            (self._prompt, traffic.prompt_tokens_per_request()),
            (self._output, traffic.generation_tokens_per_request()),
            (self._hit_ratio, traffic.prefix_hit_ratio()),
        ):
            if value is not None:
                forecaster.observe(value)

    def requests(self) -> float:
        """Of the next interval."""
        return max(0.0, self._requests.predict())

    def lengths(self) -> Lengths | None:
        """Of its requests; None before any was seen."""
        prompt, output = self._prompt.predict(), self._output.predict()
        return Lengths(prompt, output) if prompt > 0 and output > 0 else None

    def hit_ratio(self) -> float:
        """Share of its prompt tokens that the prefix cache has."""
        return min(max(self._hit_ratio.predict(), 0.0), 1.0)


class DynamoPolicy:
    """Both loops of the planner."""

    name = "dynamo"

    def __init__(
        self, settings: DynamoSettings, profile: Profile, targets: LatencyTargets, limits: Limits
    ) -> None:
        self.interval_s = settings.load_interval_s
        self._settings = settings
        self._profile = profile
        self._targets = targets
        self._limits = limits
        self._meter = TrafficMeter(settings.throughput_interval_s)
        self._throughput = Every(settings.throughput_interval_s)
        self._forecast = TrafficForecast(settings.noise)
        self._lower_bound = limits.min_replicas

    def decide(self, seen: Observation) -> Orders:
        """What the planner wants now."""
        self._meter.see(seen)
        if self._settings.enable_throughput_scaling and self._throughput.due(seen.now):
            self._plan(seen.now)
        workers = len(ready(seen.pods))
        loads = self._loads(seen)
        if workers != seen.replicas:
            return hold(seen, f"scaling in progress: {workers} of {seen.replicas} pods")
        if len(loads) != workers:
            return hold(seen, f"{len(loads)} of {workers} engines report")
        wanted = workers + threshold_step(loads, self._settings)
        replicas = self._limits.clamp(max(wanted, self._lower_bound))
        return Orders(replicas, reason=f"{wanted} by load, {self._lower_bound} by forecast")

    def wrote(self, before: int, after: int, now: float) -> None:
        """Nothing to remember."""

    def _plan(self, now: float) -> None:
        interval_s = self._settings.throughput_interval_s
        past = self._meter.last(interval_s, now)
        if past is None:
            return
        self._forecast.observe(past.traffic)
        lengths = self._forecast.lengths()
        if lengths is None:
            return
        rate = engine_requests_per_s(
            self._profile, lengths, self._forecast.hit_ratio(), self._targets
        )
        self._lower_bound = max(1, math.ceil(self._forecast.requests() / interval_s / rate))

    def _loads(self, seen: Observation) -> list[EngineLoad]:
        past = self._meter.last(self._settings.throughput_interval_s, seen.now)
        known = None if past is None else past.traffic.prompt_tokens_per_request()
        prompt = self._settings.prompt_tokens_prior if known is None else known
        loads = []
        for pod in ready(seen.pods):
            sample = pod.sample
            if sample is None or sample.used_tokens is None or not sample.capacity_tokens:
                continue
            if sample.waiting is not None:
                queued = sample.waiting * prompt
                loads.append(EngineLoad(sample.used_tokens, queued, sample.capacity_tokens))
        return loads
