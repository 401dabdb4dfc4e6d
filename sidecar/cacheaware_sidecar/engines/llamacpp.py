"""llama.cpp's server (`tools/server/server-context.cpp`), with `--metrics`.

KV usage is on the page up to May 2025 only (pull request 13660). Numbers have six digits.
Prompt tokens exclude those reused from the cache, which have a counter of their own since 2026.
"""

from functools import partial

from cacheaware_sidecar.engines.dialect import Dialect
from cacheaware_sidecar.engines.signal import Signal, names

_names = partial(names, "llamacpp:")
_COMPUTED = Signal(_names("prompt_tokens_total"))
_CACHED = Signal(_names("prompt_tokens_cached_total"))

LLAMACPP = Dialect(
    engine="llamacpp",
    prefix="llamacpp:",
    running=(Signal(_names("requests_processing")),),
    waiting=(Signal(_names("requests_deferred")),),
    usage=Signal(_names("kv_cache_usage_ratio")),
    used_tokens=Signal(_names("kv_cache_tokens")),
    counters={
        "prefix_queries": (_CACHED, _COMPUTED),
        "prefix_hits": (_CACHED,),
        "prompt_tokens": (_COMPUTED, _CACHED),
        "generation_tokens": (Signal(_names("tokens_predicted_total")),),
    },
)
