"""The metrics page of vLLM 0.33, with an engine model's numbers.

Names, labels, HELP texts, types, buckets and order are vLLM's own; prometheus_client, which vLLM
uses too, writes the text. Series that vLLM shows only behind a flag (`kv_block_*`, LoRA) are left
out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from cacheaware_sidecar.engines.sample import Histogram
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.stats import EngineSnapshot

CONTENT_TYPE = CONTENT_TYPE_LATEST

RUNNING = "Number of requests in model execution batches."
WAITING = "Number of requests waiting to be processed."
BY_REASON = (
    "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling "
    "capacity; 'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked "
    "status). Sum of all reasons equals vllm:num_requests_waiting."
)
SLEEP = (
    "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; "
    "weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2."
)
USAGE = "KV-cache usage. 1 means 100 percent usage."
EXTERNAL = (
    "External prefix cache {} from KV connector cross-instance cache sharing, in terms of number "
    "of {} tokens."
)
CACHED_BY_SOURCE = (
    "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host "
    "(offloaded to DRAM), disk, p2p (transferred from another vLLM instance) or "
    "external_unspecified. Counted at admission; sums to vllm:prefix_cache_hits + "
    "vllm:external_prefix_cache_hits."
)
CACHED = "Number of cached prompt tokens (local + external)."
REJECTIONS = "Number of admission attempts rejected by a queue limit, by reason."
CONFIG = "Information of the LLMEngine CacheConfig"

COUNTERS = {
    "prefix_cache_queries": "Prefix cache queries, in terms of number of queried tokens.",
    "prefix_cache_hits": "Prefix cache hits, in terms of number of cached tokens.",
    "external_prefix_cache_queries": EXTERNAL.format("queries", "queried"),
    "external_prefix_cache_hits": EXTERNAL.format("hits", "cached"),
    "mm_cache_queries": "Multi-modal cache queries, in terms of number of queried items.",
    "mm_cache_hits": "Multi-modal cache hits, in terms of number of cached items.",
    "num_preemptions": "Cumulative number of preemption from the engine.",
    "prompt_tokens": "Number of prefill tokens processed.",
}

HISTOGRAMS = {
    "request_prompt_tokens": "Number of prefill tokens processed.",
    "request_generation_tokens": "Number of generation tokens processed.",
    "iteration_tokens_total": "Histogram of number of tokens per engine_step.",
    "request_max_num_generation_tokens": (
        "Histogram of maximum number of requested generation tokens."
    ),
    "request_params_n": "Histogram of the n request parameter.",
    "request_params_max_tokens": "Histogram of the max_tokens request parameter.",
    "time_to_first_token_seconds": "Histogram of time to first token in seconds.",
    "inter_token_latency_seconds": "Histogram of inter-token latency in seconds.",
    "request_time_per_output_token_seconds": (
        "Histogram of time_per_output_token_seconds per request."
    ),
    "e2e_request_latency_seconds": "Histogram of e2e request latency in seconds.",
    "request_queue_time_seconds": "Histogram of time spent in WAITING phase for request.",
    "request_inference_time_seconds": "Histogram of time spent in RUNNING phase for request.",
    "request_prefill_time_seconds": "Histogram of time spent in PREFILL phase for request.",
    "request_decode_time_seconds": "Histogram of time spent in DECODE phase for request.",
    "request_num_preemptions": "Histogram of the number of times a request was preempted.",
    "request_prefill_kv_computed_tokens": (
        "Histogram of new KV tokens computed during prefill (excluding cached tokens)."
    ),
}

FIXED_CONFIG = {
    "_block_size_resolved": "True",
    "cache_dtype": "auto",
    "enable_mamba_shared_prefix_checkpoint": "False",
    "gpu_memory_utilization": "0.92",
    "is_attention_free": "False",
    "kv_cache_dtype_skip_layers": "[]",
    "kv_cache_layout": "LBNHC",
    "kv_cache_memory_bytes": "None",
    "kv_offloading_backend": "native",
    "kv_offloading_size": "None",
    "kv_sharing_fast_prefill": "False",
    "mamba_block_size": "None",
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "mamba_page_size_padded": "None",
    "mamba_ssm_cache_dtype": "auto",
    "num_cpu_blocks": "0",
    "num_gpu_blocks_override": "None",
    "prefix_cache_retention_interval": "0",
    "prefix_caching_hash_algo": "sha256",
    "prefix_match_unit": "None",
    "replayssm_buffer_len": "16",
    "simple_cpu_offload_num_blocks": "None",
    "skip_page_size_padded": "None",
    "sliding_window": "None",
    "swa_bounded_replay": "True",
    "use_kda_recoverssm": "False",
    "use_replayssm": "False",
    "user_specified_block_size": "False",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsPage:
    """One engine's page: what stays the same between two scrapes."""

    model_name: str
    config: EngineConfig
    created: float
    """Unix time of the engine's start: every `_created` series shows it."""
    engine: str = "0"
    """The data-parallel rank."""

    def render(self, snapshot: EngineSnapshot, *, process: bool = True) -> bytes:
        """The page as text, with the `python_*` and `process_*` series of this process."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Families(self.families(snapshot)))
        return (generate_latest(REGISTRY) if process else b"") + generate_latest(registry)

    def families(self, snapshot: EngineSnapshot) -> Iterator[Metric]:
        """The metric families in vLLM's order."""
        yield from self._gauges(snapshot)
        yield from self._counters(snapshot)
        for name, documentation in HISTOGRAMS.items():
            yield self._histogram(name, documentation, snapshot.histograms.get(name))
        yield self._config_info()

    def _gauges(self, snapshot: EngineSnapshot) -> Iterator[Metric]:
        waiting = snapshot.waiting
        awake = {"awake": 1, "weights_offloaded": 0, "discard_all": 0}
        yield self._gauge("num_requests_running", RUNNING, snapshot.running)
        yield self._gauge("num_requests_waiting", WAITING, waiting)
        yield self._gauge(
            "num_requests_waiting_by_reason",
            BY_REASON,
            ("reason", {"capacity": waiting, "deferred": 0}),
        )
        yield self._gauge("engine_sleep_state", SLEEP, ("sleep_state", awake))
        yield self._gauge("kv_cache_usage_perc", USAGE, snapshot.usage)

    def _counters(self, snapshot: EngineSnapshot) -> Iterator[Metric]:
        counters = snapshot.counters
        cached = counters.get("prompt_tokens_cached", 0)
        for name, documentation in COUNTERS.items():
            yield self._counter(name, documentation, counters.get(name, 0))
        yield self._counter(
            "prompt_tokens_by_source",
            "Number of prompt tokens by source.",
            ("source", _by_source(counters)),
        )
        yield self._counter("prompt_tokens_cached", CACHED, cached)
        device = {"device": counters.get("prefix_cache_hits", 0)}
        others = dict.fromkeys(("host", "p2p", "disk", "external_unspecified"), 0)
        yield self._counter(
            "prompt_tokens_cached_by_source", CACHED_BY_SOURCE, ("source", device | others)
        )
        yield self._counter(
            "generation_tokens",
            "Number of generation tokens processed.",
            counters.get("generation_tokens", 0),
        )
        yield self._counter(
            "request_success",
            "Count of successfully processed requests.",
            ("finished_reason", snapshot.outcomes),
        )
        yield self._rejections()

    def _rejections(self) -> Metric:
        family = CounterMetricFamily(
            "vllm:admission_rejections", REJECTIONS, labels=("model_name", "reason")
        )
        for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
            family.add_metric((self.model_name, reason), 0, created=self.created)
        return family

    def _gauge(self, name: str, text: str, value: "Value") -> Metric:
        labels, rows = self._rows(value)
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=labels)
        for row, number in rows:
            family.add_metric(row, number)
        return family

    def _counter(self, name: str, text: str, value: "Value") -> Metric:
        labels, rows = self._rows(value)
        family = CounterMetricFamily(f"vllm:{name}", text, labels=labels)
        for row, number in rows:
            family.add_metric(row, number, created=self.created)
        return family

    def _histogram(self, name: str, text: str, value: Histogram | None) -> Metric:
        family = HistogramMetricFamily(f"vllm:{name}", text, labels=("engine", "model_name"))
        observed = value or Histogram(count=0, sum=0, buckets=((float("inf"), 0),))
        buckets = [(_bound(bound), count) for bound, count in observed.buckets]
        family.add_metric((self.engine, self.model_name), buckets, observed.sum)
        family.add_sample(
            f"vllm:{name}_created",
            {"engine": self.engine, "model_name": self.model_name},
            self.created,
        )
        return family

    def _rows(self, value: "Value") -> tuple[list[str], list[tuple[list[str], float]]]:
        if not isinstance(value, tuple):
            return ["engine", "model_name"], [([self.engine, self.model_name], value)]
        label, numbers = value
        rows = [([self.engine, self.model_name, key], number) for key, number in numbers.items()]
        return ["engine", "model_name", label], rows

    def _config_info(self) -> Metric:
        labels = cache_config(self.config) | {"engine": self.engine}
        family = GaugeMetricFamily("vllm:cache_config_info", CONFIG, labels=list(labels))
        family.add_metric(list(labels.values()), 1)
        return family


Value = float | tuple[str, Mapping[str, float]]
"""One number, or one for each value of a further label."""


class _Families(Collector):
    """Metric families as the registry wants them."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def cache_config(config: EngineConfig) -> dict[str, str]:
    """The labels of `cache_config_info`; vLLM counts the null block in the capacity."""
    tokens = config.num_blocks * config.block_size
    return FIXED_CONFIG | {
        "block_size": str(config.block_size),
        "cache_hit_alignment_tokens": str(config.block_size),
        "effective_attention_block_size": str(config.block_size),
        "enable_prefix_caching": str(config.prefix_caching),
        "hash_block_size": str(config.block_size),
        "kv_cache_max_concurrency": str(tokens / config.max_model_len),
        "kv_cache_size_tokens": str(tokens),
        "num_gpu_blocks": str(config.num_blocks),
    }


def _bound(value: float) -> str:
    return str(floatToGoString(value))  # type: ignore[no-untyped-call] # the library has no types here


def _by_source(counters: Mapping[str, float]) -> dict[str, float]:
    cached = counters.get("prompt_tokens_cached", 0)
    return {
        "local_compute": counters.get("prompt_tokens", 0) - cached,
        "local_cache_hit": cached,
        "external_kv_transfer": 0,
    }
