"""What one look at an engine's metrics page tells: every field a value or None, never a guess."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Histogram:
    """A cumulative histogram as Prometheus exposes it, summed over the engines of the pod."""

    count: float
    sum: float
    buckets: tuple[tuple[float, float], ...]
    """(upper bound, observations at or below it), ascending; the last bound is infinity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSample:
    """One metrics page, its data-parallel engines and model names combined.

    Unknown is None, never 0. Counters are the engine's own totals since its start.
    """

    engine: str | None = None
    """vllm, sglang, tgi, trtllm, triton-trtllm, llamacpp, lmdeploy, inference-sim, generic."""
    version: str | None = None
    """Only where the page shows it; a range such as ">0.21" where its names prove one."""
    models: tuple[str, ...] = ()
    engines: int | None = None
    """Data-parallel engines seen on the page."""

    running: float | None = None
    """Requests being executed, summed over engines and models."""
    waiting: float | None = None
    """Requests queued, summed over engines and models."""
    waiting_by_reason: tuple[tuple[str, float], ...] = ()
    """(reason, requests) where the engine tells; the sum is `waiting`."""

    usage: float | None = None
    """Pinned KV, 0..1, weighted by capacity over the engines."""
    usage_max: float | None = None
    """The fullest engine's usage: what decides saturation."""
    used_tokens: float | None = None
    """Pinned tokens where the engine counts them, else usage x capacity."""
    capacity_tokens: float | None = None
    """Tokens that fit into all KV pools of the pod."""
    num_blocks: int | None = None
    """Blocks of all engines of the pod together."""
    block_size: int | None = None
    """Tokens per block."""
    kv_dtype: str | None = None
    """Cache dtype in the engine's words ("auto", "fp8", ...)."""
    used_bytes: float | None = None
    """Only where the engine reports bytes itself."""
    capacity_bytes: float | None = None
    """Only where the engine reports bytes itself."""

    prefix_queries: float | None = None
    """Counter, tokens looked up in the prefix cache."""
    prefix_hits: float | None = None
    """Counter, tokens found in the prefix cache."""
    prefix_hit_ratio: float | None = None
    """Gauge, 0..1, of engines that give no counters; None where prefix caching is off."""
    prompt_tokens: float | None = None
    """Counter, with those found in the prefix cache."""
    generation_tokens: float | None = None
    """Counter."""
    requests: float | None = None
    """Counter, requests that ended."""
    preemptions: float | None = None
    """Counter."""
    prefill_seconds: float | None = None
    """Counter, seconds from scheduled to first token, of requests that ended."""
    prefilled_tokens: float | None = None
    """Counter, prompt tokens that were computed in that time: those in the prefix cache not."""

    ttft: Histogram | None = None
    """Time to first token, seconds."""
    tpot: Histogram | None = None
    """Time per output token, seconds."""
    e2e: Histogram | None = None
    """Whole request, seconds."""
    queue: Histogram | None = None
    """Time in the queue, seconds."""

    adapters: tuple[str, ...] = ()
    """LoRA adapters that requests are using."""
    sleeping: bool | None = None
    """All engines sleep (vLLM's sleep mode): they serve nothing, and their KV is discarded."""
    started_at: float | None = None
    """The engine process's start in its own clock: an identity, never compared with our clock."""
    problems: tuple[str, ...] = ()
    """One line each: what could not be read, and why."""
