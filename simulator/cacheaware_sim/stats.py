"""What an engine counts: vLLM's counters and histograms, and the gauges of its last iteration."""

from collections.abc import Collection
from dataclasses import dataclass, field

from cacheaware_sidecar.engines.sample import Histogram
from cacheaware_sim.histogram import Observations
from cacheaware_sim.request import Request

TTFT_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
TPOT_S = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
)  # fmt: skip
REQUEST_S = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
ITERATION_TOKENS = (1.0, *(float(2**power) for power in range(3, 15)))
CHOICES = (1.0, 2.0, 5.0, 10.0, 20.0)
PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
OUTCOMES = ("stop", "length", "abort", "error", "repetition")


def token_bounds(max_model_len: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, ... up to the longest request, as vLLM makes them."""
    powers = range(len(str(max_model_len)))
    bounds = (mantissa * 10.0**power for power in powers for mantissa in (1, 2, 5))
    return tuple(bound for bound in bounds if bound <= max_model_len)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSnapshot:
    """All that an engine would tell about itself at one moment; times in seconds."""

    running: float = 0
    waiting: float = 0
    usage: float = 0.0
    """Blocks in use over usable blocks."""
    counters: dict[str, int] = field(default_factory=dict)
    """By vLLM's names without prefix and `_total`."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """Requests ended, by finish reason."""
    histograms: dict[str, Histogram] = field(default_factory=dict)
    """By vLLM's names without prefix."""


class Stats:
    """The engine's counters and histograms, by vLLM's names."""

    def __init__(self, max_model_len: int) -> None:
        tokens = token_bounds(max_model_len)
        self.prefix_cache_queries = 0
        self.prefix_cache_hits = 0
        self.preemptions = 0
        self.prompt_tokens = 0
        self.prompt_tokens_cached = 0
        self.generation_tokens = 0
        self.iterations = 0
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.request_prompt_tokens = Observations(tokens)
        self.request_generation_tokens = Observations(tokens)
        self.iteration_tokens = Observations(ITERATION_TOKENS)
        self.request_params_n = Observations(CHOICES)
        self.request_params_max_tokens = Observations(tokens)
        self.ttft = Observations(TTFT_S)
        self.inter_token = Observations(TPOT_S)
        self.request_tpot = Observations(TPOT_S)
        self.e2e = Observations(REQUEST_S)
        self.queue = Observations(REQUEST_S)
        self.inference = Observations(REQUEST_S)
        self.prefill = Observations(REQUEST_S)
        self.decode = Observations(REQUEST_S)
        self.request_num_preemptions = Observations(PREEMPTIONS)
        self.request_prefill_kv_computed_tokens = Observations(tokens)
        self._histograms = {
            "request_prompt_tokens": self.request_prompt_tokens,
            "request_generation_tokens": self.request_generation_tokens,
            "iteration_tokens_total": self.iteration_tokens,
            # The longest of a request's answers: an engine's request has one.
            "request_max_num_generation_tokens": self.request_generation_tokens,
            "request_params_n": self.request_params_n,
            "request_params_max_tokens": self.request_params_max_tokens,
            "time_to_first_token_seconds": self.ttft,
            "inter_token_latency_seconds": self.inter_token,
            "request_time_per_output_token_seconds": self.request_tpot,
            "e2e_request_latency_seconds": self.e2e,
            "request_queue_time_seconds": self.queue,
            "request_inference_time_seconds": self.inference,
            "request_prefill_time_seconds": self.prefill,
            "request_decode_time_seconds": self.decode,
            "request_num_preemptions": self.request_num_preemptions,
            "request_prefill_kv_computed_tokens": self.request_prefill_kv_computed_tokens,
        }

    def first_token(self, request: Request, now: float) -> None:
        """Count what vLLM counts when the first token of a request comes out."""
        self.prompt_tokens += request.prompt_tokens
        self.prompt_tokens_cached += request.cached_tokens
        self.ttft.observe(now - request.arrived_at)

    def finished(self, request: Request, now: float) -> None:
        """Count what vLLM counts when a request ends, however it ends."""
        self.outcomes[request.outcome or "error"] += 1
        self.request_prompt_tokens.observe(request.prompt_tokens)
        self.request_generation_tokens.observe(request.generated)
        self.request_params_n.observe(1)
        self.request_params_max_tokens.observe(request.max_tokens)
        self.e2e.observe(now - request.arrived_at)
        self.request_num_preemptions.observe(request.preemptions)
        self.request_prefill_kv_computed_tokens.observe(
            request.prompt_tokens - request.cached_tokens
        )
        self._phases(request, now)

    def _phases(self, request: Request, now: float) -> None:
        scheduled, first = request.scheduled_at, request.first_token_at
        if scheduled is None:
            return
        self.queue.observe(scheduled - request.arrived_at)
        self.inference.observe(now - scheduled)
        if first is None:
            return
        self.prefill.observe(first - scheduled)
        self.decode.observe(now - first)
        if request.generated > 1:
            self.request_tpot.observe((now - first) / (request.generated - 1))

    def counters(self) -> dict[str, int]:
        """The counters by vLLM's names."""
        return {
            "prefix_cache_queries": self.prefix_cache_queries,
            "prefix_cache_hits": self.prefix_cache_hits,
            "num_preemptions": self.preemptions,
            "prompt_tokens": self.prompt_tokens,
            "prompt_tokens_cached": self.prompt_tokens_cached,
            "generation_tokens": self.generation_tokens,
        }

    def histograms(self, names: Collection[str] | None = None) -> dict[str, Histogram]:
        """The histograms, or those of these names, by vLLM's names in the order of its page."""
        return {
            name: observations.frozen()
            for name, observations in self._histograms.items()
            if names is None or name in names
        }
