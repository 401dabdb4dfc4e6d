"""llm-d's workload-variant-autoscaler, token analyzer: wva-v2.

Source: llm-d WVA 2976e4e (v0.9, where it is the default), internal/engines/analyzers/saturation_v2,
internal/engines/pipeline/cost_aware_optimizer.go, internal/config/saturation_scaling.go. A pod's
capacity in tokens is the smaller of 80 % of its cache and of what it held when its queue was full
(seen now, else remembered, else derived from the scheduler's limits); demand is tokens in use plus
the tokens of waiting requests. Up by what is missing at 85 %, down by what is over at 70 %. Every
60 s; wva_desired_replicas goes to the HPA that the user annotates. The documented one has no
`behavior`, so it is Kubernetes' default here.

What is approximated. Mean tokens of completed requests over 5 min come from histograms there, from
the counters of prompts begun and answers given here. There is no queue before the engines (EPP flow
control) in the simulator, so its term is always 0. b08b1c7 counted a waiting request by its prompt
alone: `queue_counts_output=False`.
"""

import math
import statistics
from collections import deque
from dataclasses import dataclass

from cacheaware_sim.fleet.scraped import Observation, PodSample
from cacheaware_sim.policies.hpa_behavior import DEFAULT_BEHAVIOR
from cacheaware_sim.policies.policy import Limits, not_terminating, ready
from cacheaware_sim.policies.wva import PEAK_S, Through, WvaPolicy

RANGE_S = 300.0
REMEMBERED = 10
"""Observations in the rolling mean of a pod's capacity under a full queue."""
UNSET_BEHAVIOR = Through(DEFAULT_BEHAVIOR)


@dataclass(frozen=True, slots=True)
class WvaV2Settings:
    """The saturation ConfigMap and what WVA reads from the Deployment's arguments."""

    kv_threshold: float = 0.80
    queue_threshold: float = 5.0
    scale_up_threshold: float = 0.85
    scale_down_boundary: float = 0.70
    queue_counts_output: bool = True
    max_num_batched_tokens: int = 8192
    """What WVA takes for vLLM's V1 engine where no argument tells."""
    max_num_seqs: int = 256
    loop_s: float = 60.0
    through: Through = UNSET_BEHAVIOR


DEFAULT = WvaV2Settings()


@dataclass(frozen=True, slots=True)
class PodLoad:
    """One pod; tokens and requests."""

    capacity_tokens: float
    tokens_in_use: float
    waiting: float
    input_tokens: float
    """Mean of a request over 5 min; 0 where nothing is known."""
    output_tokens: float


def output_bucket(output_tokens: float) -> str:
    """What the remembered capacities are told apart by."""
    if output_tokens < 100:
        return "short"
    return "medium" if output_tokens < 500 else "long"


def derived_capacity(load: PodLoad, settings: WvaV2Settings) -> float | None:
    """Tokens that a pod holds in a steady state by its scheduler's limits; None without answers.

    >>> derived_capacity(PodLoad(1, 0, 0, 1000, 1000), WvaV2Settings())
    384000.0
    """
    tokens_in, tokens_out = load.input_tokens, load.output_tokens
    if tokens_out <= 0:
        return None
    requests = settings.max_num_batched_tokens * tokens_out / (tokens_in + tokens_out)
    return min(requests, settings.max_num_seqs) * (tokens_in + tokens_out / 2)


def is_queue_full(load: PodLoad, settings: WvaV2Settings) -> bool:
    """Whether what the pod holds now is all that it can."""
    return load.waiting >= settings.queue_threshold and load.tokens_in_use > 0


def pod_capacity(load: PodLoad, remembered: float | None, settings: WvaV2Settings) -> float:
    """Tokens that a pod can hold and still answer in time."""
    by_memory = settings.kv_threshold * load.capacity_tokens
    if is_queue_full(load, settings):
        by_compute = load.tokens_in_use
    else:
        by_compute = remembered or derived_capacity(load, settings) or by_memory
    return min(by_memory, by_compute)


def pod_demand(load: PodLoad, settings: WvaV2Settings) -> float:
    """Tokens that the pod holds and that its queue will need."""
    request = load.input_tokens
    if settings.queue_counts_output:
        request += load.output_tokens
    return load.tokens_in_use + load.waiting * request


def replicas_for(
    demand: float, capacity: float, ready_pods: int, pending: int, settings: WvaV2Settings
) -> int:
    """Desired replicas, from demand in tokens and capacity of one pod.

    >>> replicas_for(100_000, 10_000, 8, 2, WvaV2Settings())
    12
    >>> replicas_for(30_000, 10_000, 8, 0, WvaV2Settings())
    5
    >>> replicas_for(60_000, 10_000, 8, 0, WvaV2Settings())
    8
    """
    current = ready_pods + pending
    if capacity <= 0:
        return current
    required = demand / settings.scale_up_threshold - current * capacity
    if required > 0:
        return current + math.ceil(required / capacity)
    spare = ready_pods * capacity - demand / settings.scale_down_boundary
    return max(1, current - max(0, math.floor(spare / capacity)))


class WvaV2Policy(WvaPolicy):
    """The token loop and its HPA."""

    name = "wva-v2"

    def __init__(self, settings: WvaV2Settings, limits: Limits) -> None:
        super().__init__(settings.loop_s, settings.through, RANGE_S, limits)
        self._settings = settings
        self._full: dict[str, deque[float]] = {}

    def _analyze(self, seen: Observation) -> int | None:
        pods = not_terminating(seen.pods)
        loads = [load for pod in pods if (load := self._load(pod, seen.now)) is not None]
        if not loads:
            return self._desired
        ready_pods = len(ready(pods))
        demand = sum(pod_demand(load, self._settings) for load in loads)
        capacity = statistics.median(self._capacity(load) for load in loads)
        pending = max(0, seen.replicas - ready_pods)
        replicas = replicas_for(demand, capacity, ready_pods, pending, self._settings)
        return self._limits.clamp(replicas)

    def _capacity(self, load: PodLoad) -> float:
        bucket = output_bucket(load.output_tokens)
        if is_queue_full(load, self._settings):
            full = self._full.setdefault(bucket, deque(maxlen=REMEMBERED))
            full.append(load.tokens_in_use)
        known = self._full.get(bucket)
        remembered = sum(known) / len(known) if known else None
        return pod_capacity(load, remembered, self._settings)

    def _load(self, pod: PodSample, now: float) -> PodLoad | None:
        scrapes = self._scrapes.last(pod.name, PEAK_S, now)
        capacity = scrapes[-1].capacity_tokens if scrapes else None
        if capacity is None:
            return None
        usage = max(sample.usage or 0.0 for sample in scrapes)
        rates = self._scrapes.rates(pod.name)
        return PodLoad(
            capacity_tokens=capacity,
            tokens_in_use=usage * capacity,
            waiting=max(sample.waiting or 0.0 for sample in scrapes),
            input_tokens=rates.prompt_tokens_per_request or 0.0,
            output_tokens=rates.generation_tokens_per_request or 0.0,
        )
