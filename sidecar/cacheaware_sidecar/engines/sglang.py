"""SGLang, old and new names (`python/sglang/srt/metrics/collector.py`).

Ranks of one tensor- or pipeline-parallel group repeat the same requests where
`--enable-metrics-for-all-schedulers` is set; data-parallel ranks add up. With priority
scheduling `priority=""` is the total. `token_usage` is already the fullest of the pools.
"""

from functools import partial

from cacheaware_sidecar.engines.dialect import ALL_TOKENS, Capacity, Dialect
from cacheaware_sidecar.engines.exposition import Found
from cacheaware_sidecar.engines.reader import Rank, Reader
from cacheaware_sidecar.engines.signal import Signal, families, names

_names = partial(names, "sglang:")
_families = partial(families, "sglang:")
_TOTAL = ("priority", "")
_CAPACITY = Signal(_names("max_total_num_tokens"))
_PAGES = Signal(_names("num_pages"))
_PAGE_SIZE = Signal(_names("page_size"))


def _gauge(*suffixes: str) -> Signal:
    return Signal(_names(*suffixes), total=_TOTAL)


def _capacity(reader: Reader, _ranks: frozenset[Rank]) -> Capacity:
    """Tokens of the pool; 0 on a page where it was never set."""
    by_engine = reader.by_engine(reader.series(_CAPACITY) or ())
    pages, page_size = reader.total(_PAGES), reader.largest(_PAGE_SIZE)
    return Capacity(
        tokens=sum(by_engine.values()) or None,
        tokens_by_engine=by_engine,
        num_blocks=int(pages) if pages else None,
        block_size=int(page_size) if page_size else None,
    )


def _version(found: Found) -> str | None:
    """A range that the names prove, from the releases read: newer than the last one without."""
    series = b"".join(found.get(b"sglang:num_running_reqs", ()))
    proofs = {
        ">0.5.10": b"sglang:kv_used_tokens" in found,
        ">0.5.2": b"sglang:max_total_num_tokens" in found,
        ">0.4.6": b"tp_rank=" in series,
        ">0.4.1": b"engine_type=" in series,
    }
    return next((version for version, proven in proofs.items() if proven), None)


SGLANG = Dialect(
    engine="sglang",
    prefix="sglang:",
    engine_labels=("dp_rank",),
    repeat_labels=frozenset({"tp_rank", "pp_rank", "moe_ep_rank"}),
    # What is being handed over between prefill and decode pods is in no other gauge.
    running=(
        _gauge("num_running_reqs"),
        _gauge("num_prefill_inflight_queue_reqs", "num_prefill_infight_queue_reqs"),
    ),
    waiting=(
        _gauge("num_queue_reqs"),
        _gauge("num_grammar_queue_reqs"),
        _gauge("num_prefill_bootstrap_queue_reqs", "num_prefill_prealloc_queue_reqs"),
        _gauge("num_decode_prealloc_queue_reqs"),
        _gauge("num_decode_transfer_queue_reqs"),
    ),
    usage=_gauge("token_usage"),
    used_tokens=_gauge("kv_used_tokens", "num_used_tokens"),
    capacity_names=(*_CAPACITY.names, *_PAGES.names, *_PAGE_SIZE.names),
    capacity=_capacity,
    counters={
        "prefix_queries": (Signal(_names("prompt_tokens_total")),),
        "prefix_hits": (Signal(_names("cached_tokens_total"), fallback=("cache_source", "total")),),
        "prompt_tokens": (Signal(_names("prompt_tokens_total")),),
        "generation_tokens": (Signal(_names("generation_tokens_total")),),
        "requests": (Signal(_names("num_requests_total")),),
        "preemptions": (Signal(_names("num_retracted_requests_total")),),
    },
    counted_at_end=ALL_TOKENS,
    hit_ratio=_gauge("cache_hit_rate"),
    histograms={
        "ttft": _families("time_to_first_token_seconds"),
        "tpot": _families("inter_token_latency_seconds", "time_per_output_token_seconds"),
        "e2e": _families("e2e_request_latency_seconds"),
        "queue": _families("queue_time_seconds", "queue_time_s"),
    },
    started=(b"process_start_time_seconds",),
    version=_version,
)
