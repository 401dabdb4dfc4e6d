"""`GET /v1/state`, the frozen contract between sidecar and operator, in one place.

`PodState` is what a sidecar tells, `kv_state` makes its KV part from a scrape, and the JSON of
both is `{"schema": 1, "phase": ..., "phase_age_s": ..., "sample_age_s": ..., "sample_seq": ...,
"engine": ..., "version": ..., "models": [...], "running": ..., "waiting": ...,
"kv": {"usage", "usage_max", "used_bytes", "capacity_bytes", "used_tokens", "capacity_tokens",
"page_bytes", "block_size", "estimated"}, "rates": {...},
"latency": {"ttft_s", "tpot_s", "e2e_s": each {"count", "sum", "buckets": [[le, n], ...]}},
"warmup": {...}, "drain": {...}, "problems": [...]}`. Unknown is null; the last `le` is "+Inf".
"""

from cacheaware_sidecar.engines import Histogram, Rates
from cacheaware_sidecar.kv_state import kv_state
from cacheaware_sidecar.pod_state import (
    SCHEMA,
    DrainState,
    KvState,
    Latency,
    PodState,
    WarmupState,
)
from cacheaware_sidecar.state_json import (
    StateError,
    UnknownSchemaError,
    pod_state_from_json,
    pod_state_to_json,
)

__all__ = [
    "SCHEMA",
    "DrainState",
    "Histogram",
    "KvState",
    "Latency",
    "PodState",
    "Rates",
    "StateError",
    "UnknownSchemaError",
    "WarmupState",
    "kv_state",
    "pod_state_from_json",
    "pod_state_to_json",
]
