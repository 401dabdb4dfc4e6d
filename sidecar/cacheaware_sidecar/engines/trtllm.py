"""TensorRT-LLM: `trtllm-serve` (`/prometheus/metrics`), and its backend in Triton."""

from functools import partial

from cacheaware_sidecar.engines.dialect import ALL_TOKENS, Capacity, Dialect
from cacheaware_sidecar.engines.reader import Rank, Reader
from cacheaware_sidecar.engines.signal import Signal, families, names

_names = partial(names, "trtllm_")
_families = partial(families, "trtllm_")
_BLOCKS = Signal(_names("kv_cache_max_blocks"))
_BLOCK_SIZE = Signal(_names("kv_cache_tokens_per_block"))


def _of_blocks(reader: Reader, blocks: Signal, block_size: Signal) -> Capacity:
    """Blocks x tokens per block, engine by engine."""
    counts = reader.by_engine(reader.series(blocks) or ())
    sizes = reader.by_engine(reader.series(block_size) or ())
    tokens = {rank: count * sizes.get(rank, 0.0) for rank, count in counts.items()}
    known = all(tokens.values())
    return Capacity(
        tokens=sum(tokens.values()) or None if known else None,
        tokens_by_engine=tokens if known else {},
        num_blocks=int(sum(counts.values())) or None,
        block_size=int(max(sizes.values(), default=0)) or None,
    )


def _capacity(reader: Reader, _ranks: frozenset[Rank]) -> Capacity:
    return _of_blocks(reader, _BLOCKS, _BLOCK_SIZE)


TRTLLM = Dialect(
    engine="trtllm",
    prefix="trtllm_",
    running=(Signal(_names("num_requests_running")),),
    waiting=(Signal(_names("num_requests_waiting")),),
    usage=Signal(_names("kv_cache_utilization")),
    capacity_names=(*_BLOCKS.names, *_BLOCK_SIZE.names),
    capacity=_capacity,
    counters={
        "prefix_queries": (Signal(_names("prompt_tokens_total")),),
        "prefix_hits": (Signal(_names("prompt_cached_tokens_total")),),
        "prompt_tokens": (Signal(_names("prompt_tokens_total")),),
        "generation_tokens": (Signal(_names("generation_tokens_total")),),
        "requests": (Signal(_names("num_requests_completed_total", "request_success_total")),),
    },
    counted_at_end=ALL_TOKENS,
    hit_ratio=Signal(_names("kv_cache_hit_rate")),
    histograms={
        "ttft": _families("time_to_first_token_seconds"),
        "tpot": _families("time_per_output_token_seconds"),
        "e2e": _families("e2e_request_latency_seconds"),
        "queue": _families("request_queue_time_seconds"),
    },
    started=(b"process_start_time_seconds", *_names("prompt_tokens_created")),
)

_REQUESTS = (b"nv_trt_llm_request_metrics",)
_KV_BLOCKS = (b"nv_trt_llm_kv_cache_block_metrics",)


def _request(kind: str) -> Signal:
    return Signal(_REQUESTS, where={"request_type": kind})


def _block(kind: str) -> Signal:
    return Signal(_KV_BLOCKS, where={"kv_cache_block_type": kind})


def _triton_capacity(reader: Reader, _ranks: frozenset[Rank]) -> Capacity:
    return _of_blocks(reader, _block("max"), _block("tokens_per"))


TRITON_TRTLLM = Dialect(
    engine="triton-trtllm",
    prefix="nv_trt_llm_",
    engine_labels=("model", "version"),
    running=(_request("active"),),
    waiting=(_request("waiting"),),
    usage=_block("fraction"),
    capacity=_triton_capacity,
)
