"""LMDeploy (`lmdeploy/metrics/loggers.py`).

`num_api_requests_waiting` counts what has no request handle yet: above the engine, not its queue.
"""

from functools import partial

from cacheaware_sidecar.engines.dialect import Dialect
from cacheaware_sidecar.engines.signal import Signal, families, names

_names = partial(names, "lmdeploy:")
_families = partial(families, "lmdeploy:")

LMDEPLOY = Dialect(
    engine="lmdeploy",
    prefix="lmdeploy:",
    engine_labels=("engine",),
    running=(Signal(_names("num_requests_running")),),
    waiting=(Signal(_names("num_requests_waiting")),),
    usage=Signal(_names("gpu_cache_usage_perc")),
    counters={
        "prefix_queries": (Signal(_names("prompt_tokens_total")),),
        "prefix_hits": (Signal(_names("cached_tokens_total")),),
        "prompt_tokens": (Signal(_names("prompt_tokens_total")),),
        "generation_tokens": (Signal(_names("generation_tokens_total")),),
        "requests": (Signal(_names("request_success_total")),),
    },
    hit_ratio=Signal(_names("prefix_cache_hit_rate")),
    histograms={
        "ttft": _families("time_to_first_token_seconds"),
        "tpot": _families("iter_token_latency", "time_per_output_token_seconds"),
        "e2e": _families("e2e_request_latency_seconds"),
        "queue": _families("request_queue_time_seconds"),
    },
    started=(b"process_start_time_seconds",),
)
