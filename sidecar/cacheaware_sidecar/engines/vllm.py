"""vLLM, V0 and V1: also wrapped by Ray, re-exported by Triton, imitated by llm-d-inference-sim.

Names over time: vLLM `vllm/engine/metrics.py` (V0), `vllm/v1/metrics/loggers.py` (V1).
"""

from collections.abc import Callable
from dataclasses import replace

from cacheaware_sidecar.engines.dialect import ALL_TOKENS, Dialect, no_version
from cacheaware_sidecar.engines.exposition import Found, read_series
from cacheaware_sidecar.engines.signal import Signal, families, names
from cacheaware_sidecar.engines.vllm_capacity import capacity_from_info


def _dialect(prefix: str, engine_labels: tuple[str, ...], counted: tuple[str, ...]) -> Dialect:
    """The table under one prefix; `counted` are the endings that its counters may have."""

    def signal(*suffixes: str) -> Signal:
        return Signal(names(prefix, *suffixes))

    def counter(*suffixes: str) -> tuple[Signal, ...]:
        return (signal(*(suffix + ending for suffix in suffixes for ending in counted)),)

    return Dialect(
        engine="vllm",
        prefix=prefix,
        engine_labels=engine_labels,
        running=(signal("num_requests_running"),),
        waiting=(signal("num_requests_waiting"), signal("num_requests_swapped")),
        waiting_by_reason=signal("num_requests_waiting_by_reason"),
        usage=signal("kv_cache_usage_perc", "gpu_cache_usage_perc"),
        capacity_names=names(prefix, "cache_config_info"),
        capacity=capacity_from_info(f"{prefix}cache_config_info".encode()),
        counters={
            "prefix_queries": counter("prefix_cache_queries", "gpu_prefix_cache_queries"),
            "prefix_hits": counter("prefix_cache_hits", "gpu_prefix_cache_hits"),
            "prompt_tokens": counter("prompt_tokens"),
            "generation_tokens": counter("generation_tokens"),
            "requests": counter("request_success"),
            "preemptions": counter("num_preemptions"),
            "prefill_seconds": (signal("request_prefill_time_seconds_sum"),),
            "prefilled_tokens": (signal("request_prefill_kv_computed_tokens_sum"),),
        },
        hit_ratio=signal("gpu_prefix_cache_hit_rate"),
        adapters=signal("lora_requests_info"),
        awake=Signal(names(prefix, "engine_sleep_state"), where={"sleep_state": "awake"}),
        histograms={
            "ttft": families(prefix, "time_to_first_token_seconds"),
            "tpot": families(
                prefix, "inter_token_latency_seconds", "time_per_output_token_seconds"
            ),
            "e2e": families(prefix, "e2e_request_latency_seconds"),
            "queue": families(prefix, "request_queue_time_seconds"),
        },
        started=(b"process_start_time_seconds", *names(prefix, "prompt_tokens_created")),
        version=_version(prefix),
    )


def _version(prefix: str) -> Callable[[Found], str | None]:
    """A range that the names prove, from the releases read: newer than the last one without."""
    waiting_by_reason, kv_usage, gpu_usage, info = names(
        prefix,
        "num_requests_waiting_by_reason",
        "kv_cache_usage_perc",
        "gpu_cache_usage_perc",
        "cache_config_info",
    )

    def read(found: Found) -> str | None:
        labels = b"".join(found.get(info, ()))
        if b"cache_hit_alignment_tokens=" in labels:
            return ">0.30"
        if b"kv_cache_size_tokens=" in labels:
            return ">0.21"
        if waiting_by_reason in found:
            return ">0.19"
        if gpu_usage in found:
            return ">0.8.5, <0.12" if kv_usage in found else "<0.9.2"
        return ">0.8.5" if kv_usage in found else None

    return read


def is_imitation(found: Found) -> bool:
    """Whether the page is llm-d-inference-sim's: `finish_reason`, or a bare `cache_config_info`."""
    ended = read_series((found.get(b"vllm:request_success_total") or [b""])[0])
    info = read_series((found.get(b"vllm:cache_config_info") or [b""])[0])
    return bool(
        (ended and "finish_reason" in ended[0])
        or (info and info[0].keys() == {"block_size", "num_gpu_blocks"})
    )


VLLM = _dialect("vllm:", ("engine",), ("_total",))
INFERENCE_SIM = replace(VLLM, engine="inference-sim", version=no_version, counted_at_end=ALL_TOKENS)
_RAY_LABELS = ("WorkerId", "ReplicaId", "engine")
# Ray exports a counter under both names; its page's process is Ray's agent, not the engine.
RAY = tuple(
    replace(_dialect(prefix, _RAY_LABELS, ("_total", "")), started=())
    for prefix in ("ray_vllm_", "ray_vllm:")
)
