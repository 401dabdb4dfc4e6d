"""What a scan of the engine's metrics page would say, without rendering and scanning it.

For drivers in virtual time: a policy that reads this reads exactly what the page shows.
"""

from cacheaware_sidecar.engines.sample import EngineSample
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.stats import EngineSnapshot

HISTOGRAMS = (
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_prefill_kv_computed_tokens",
)
"""What a sample needs of a snapshot: few of those that the page shows."""


def sample_of(
    snapshot: EngineSnapshot, config: EngineConfig, model: str, started_at: float
) -> EngineSample:
    """The sample of one engine; `started_at` is its identity, in its own clock.

    `snapshot(HISTOGRAMS)` of the engine is enough for it.
    """
    waiting = float(snapshot.waiting)
    capacity = float(config.num_blocks * config.block_size)
    counters, histograms = snapshot.counters, snapshot.histograms
    return EngineSample(
        engine="vllm",
        models=(model,),
        engines=1,
        running=float(snapshot.running),
        waiting=waiting,
        waiting_by_reason=(("capacity", waiting), ("deferred", 0.0)),
        usage=snapshot.usage,
        usage_max=snapshot.usage,
        used_tokens=snapshot.usage * capacity,
        capacity_tokens=capacity,
        num_blocks=config.num_blocks,
        block_size=config.block_size,
        kv_dtype="auto",
        prefix_queries=float(counters["prefix_cache_queries"]),
        prefix_hits=float(counters["prefix_cache_hits"]),
        prompt_tokens=float(counters["prompt_tokens"]),
        generation_tokens=float(counters["generation_tokens"]),
        requests=float(sum(snapshot.outcomes.values())),
        preemptions=float(counters["num_preemptions"]),
        prefill_seconds=histograms["request_prefill_time_seconds"].sum,
        prefilled_tokens=histograms["request_prefill_kv_computed_tokens"].sum,
        ttft=histograms["time_to_first_token_seconds"],
        tpot=histograms["inter_token_latency_seconds"],
        e2e=histograms["e2e_request_latency_seconds"],
        queue=histograms["request_queue_time_seconds"],
        sleeping=False,
        started_at=started_at,
    )
