"""Engines of one's own that say how full they are in the sidecar's own names."""

from cacheaware_sidecar.engines.dialect import Dialect
from cacheaware_sidecar.engines.signal import Signal

GENERIC = Dialect(
    engine="generic",
    prefix="",
    running=(Signal((b"running_requests",)),),
    waiting=(Signal((b"pending_requests",)),),
    capacity_names=(b"kv_cache_used_bytes", b"kv_cache_capacity_bytes"),
)
