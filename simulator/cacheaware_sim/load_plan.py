"""What a load generator is to send: always bounded, and the same again for the same seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from math import inf, isinf

from cacheaware_sim.load_trace import LoadError, LoadTrace
from cacheaware_sim.traces.trace import TraceRequest

MOST_REQUESTS = 1_000_000
LONGEST_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Open loop (`rate`, `trace`) or closed loop (`concurrency`), always with a bound.

    Bounds are `requests`, `duration_s` and the end of a trace's part.

    Raises:
        LoadError: Not exactly one kind of load, no bound, or a number out of range.
    """

    url: str
    rate: float | None = None
    """Requests per second, exponentially spaced (Poisson arrivals), whatever the answers do."""
    concurrency: int | None = None
    """Clients that each wait for their answer before they ask again."""
    trace: LoadTrace | None = None
    """Requests at their times and with their own prompt and output tokens, whatever the answers do.
    """
    requests: int | None = None
    duration_s: float | None = None
    """Seconds in which requests are sent; what runs then is still waited for."""
    at_least: int = 0
    """Requests that are sent even if the load is told to stop earlier."""
    prompt_tokens: int = 128
    """Of all requests, but those of a trace."""
    output_tokens: int = 64
    shared_tokens: int = 0
    """Tokens at the start of each prompt that are the same in all of them."""
    stream: bool = True
    keep_alive: bool = False
    """Reuse connections: kube-proxy then leaves them all with the pods that were there first."""
    timeout_s: float = 300.0
    max_in_flight: int = 1000
    """Above it an open loop sends nothing and counts the request as not sent."""
    slo_ttft_ms: float | None = None
    slo_tpot_ms: float | None = None
    """Targets by which requests are judged: time to the first token, time per further token."""
    model: str | None = None
    api_key: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise LoadError(f"url {self.url}: must begin with http:// or https://")
        if sum(kind is not None for kind in (self.rate, self.concurrency, self.trace)) != 1:
            raise LoadError("rate, concurrency, trace: exactly one of them is needed")
        if self.requests is None and self.duration_s is None:
            self._check_end()
        if not self.stream and (self.slo_ttft_ms is not None or self.slo_tpot_ms is not None):
            raise LoadError("slo-ttft-ms, slo-tpot-ms: known of streams only, not with no-stream")
        self._check_numbers()

    def _check_end(self) -> None:
        if self.trace is None:
            raise LoadError("requests, duration: at least one of them is needed as a bound")
        if isinf(self.trace.to_s):
            raise LoadError("to, requests, duration: at least one of them is needed as a bound")

    def _check_numbers(self) -> None:
        _within("rate", self.rate, 1e-3, 10_000)
        _within("concurrency", self.concurrency, 1, 10_000)
        _within("requests", self.requests, 1, MOST_REQUESTS)
        _within("duration", self.duration_s, 1e-3, LONGEST_S)
        _within("at-least", self.at_least, 0, self.most())
        _within("prompt-tokens", self.prompt_tokens, 1, 1_000_000)
        _within("output-tokens", self.output_tokens, 1, 1_000_000)
        longest = 1_000_000 if self.trace else self.prompt_tokens
        _within("shared-tokens", self.shared_tokens, 0, longest)
        _within("timeout", self.timeout_s, 1e-3, LONGEST_S)
        _within("max-in-flight", self.max_in_flight, 1, 10_000)
        _within("slo-ttft-ms", self.slo_ttft_ms, 1e-3, LONGEST_S * 1e3)
        _within("slo-tpot-ms", self.slo_tpot_ms, 1e-3, LONGEST_S * 1e3)

    def most(self) -> int:
        """The largest number of requests that may be sent."""
        return MOST_REQUESTS if self.requests is None else self.requests

    def check_trace(self) -> None:
        """Read what will be sent of a trace once, before anything is sent.

        Raises:
            LoadError: A bad line, or nothing to send.
        """
        if self.trace is not None:
            self.trace.check(self.most(), self.duration_s or inf)

    def arrivals(self) -> Iterator[TraceRequest]:
        """The requests of an open loop by time, seconds from its start; of a rate for ever.

        The first one of a trace is read at once: it may be far into the file.
        """
        if self.trace is not None:
            requests = self.trace.requests()
            return chain([next(requests)], requests)
        draws = random.Random(self.seed)  # noqa: S311 - repeatable traffic, not a secret
        rate = self.rate or 1.0
        return map(self.request, accumulate(map(draws.expovariate, repeat(rate))))

    def request(self, at: float = 0.0) -> TraceRequest:
        """A request of the one size that all have."""
        return TraceRequest(at, self.prompt_tokens, self.output_tokens)


def _within(name: str, value: float | None, least: float, most: float) -> None:
    if value is not None and not least <= value <= most:
        raise LoadError(f"{name} {value}: must be {least:,.10g} to {most:,.10g}")
