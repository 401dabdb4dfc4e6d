"""Text Generation Inference (`router/src/server.rs`).

A gauge is on the page only after it was first set. KV usage is not reported:
`tgi_batch_current_max_tokens` is what the batch may grow to, not what it holds. Prompt tokens are
counted when a request arrives, so they run ahead of it while it waits.
"""

from functools import partial

from cacheaware_sidecar.engines.dialect import Capacity, Dialect
from cacheaware_sidecar.engines.reader import Rank, Reader
from cacheaware_sidecar.engines.signal import Signal, families, names

_names = partial(names, "tgi_")
_families = partial(families, "tgi_")
_CAPACITY = Signal(_names("batch_max_total_tokens"))


def _capacity(reader: Reader, _ranks: frozenset[Rank]) -> Capacity:
    return Capacity(tokens=reader.total(_CAPACITY) or None)


TGI = Dialect(
    engine="tgi",
    prefix="tgi_",
    running=(Signal(_names("batch_current_size")),),
    waiting=(Signal(_names("queue_size")),),
    capacity_names=_CAPACITY.names,
    capacity=_capacity,
    counters={
        "prompt_tokens": (Signal(_names("request_input_length_sum")),),
        "generation_tokens": (Signal(_names("request_generated_tokens_sum")),),
        "requests": (Signal(_names("request_success")), Signal(_names("request_failure"))),
    },
    counted_at_end=frozenset({"generation_tokens"}),
    histograms={
        "tpot": _families("request_mean_time_per_token_duration"),
        "e2e": _families("request_duration"),
        "queue": _families("request_queue_duration"),
    },
)
