"""What a load generator is to send: always bounded, and the same again for the same seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

MOST_REQUESTS = 1_000_000
LONGEST_S = 86_400.0


class LoadError(ValueError):
    """A plan that makes no sense: one line with the field, its value and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Open loop (`rate`) or closed loop (`concurrency`), until `requests` or `duration_s`.

    Raises:
        LoadError: Not exactly one kind of loop, no bound, or a number out of range.
    """

    url: str
    rate: float | None = None
    """Requests per second, exponentially spaced (Poisson arrivals), whatever the answers do."""
    concurrency: int | None = None
    """Clients that each wait for their answer before they ask again."""
    requests: int | None = None
    duration_s: float | None = None
    """Seconds in which requests are sent; what runs then is still waited for."""
    at_least: int = 0
    """Requests that are sent even if the load is told to stop earlier."""
    prompt_tokens: int = 128
    output_tokens: int = 64
    shared_tokens: int = 0
    """Tokens at the start of each prompt that are the same in all of them."""
    stream: bool = True
    keep_alive: bool = False
    """Reuse connections: kube-proxy then leaves them all with the pods that were there first."""
    timeout_s: float = 300.0
    max_in_flight: int = 1000
    """Above it an open loop sends nothing and counts the request as not sent."""
    model: str | None = None
    api_key: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise LoadError(f"url {self.url}: must begin with http:// or https://")
        if (self.rate is None) == (self.concurrency is None):
            raise LoadError("rate, concurrency: exactly one of them is needed")
        if self.requests is None and self.duration_s is None:
            raise LoadError("requests, duration: at least one of them is needed as a bound")
        self._check_numbers()

    def _check_numbers(self) -> None:
        _within("rate", self.rate, 1e-3, 10_000)
        _within("concurrency", self.concurrency, 1, 10_000)
        _within("requests", self.requests, 1, MOST_REQUESTS)
        _within("duration", self.duration_s, 1e-3, LONGEST_S)
        _within("at-least", self.at_least, 0, self.most())
        _within("prompt-tokens", self.prompt_tokens, 1, 1_000_000)
        _within("output-tokens", self.output_tokens, 1, 1_000_000)
        _within("shared-tokens", self.shared_tokens, 0, self.prompt_tokens)
        _within("timeout", self.timeout_s, 1e-3, LONGEST_S)
        _within("max-in-flight", self.max_in_flight, 1, 10_000)

    def most(self) -> int:
        """The largest number of requests that may be sent."""
        return MOST_REQUESTS if self.requests is None else self.requests

    def gaps_s(self) -> Iterator[float]:
        """Seconds between two arrivals of an open loop, for ever."""
        arrivals = random.Random(self.seed)  # noqa: S311 - repeatable traffic, not a secret
        while True:
            yield arrivals.expovariate(self.rate or 1.0)


def _within(name: str, value: float | None, least: float, most: float) -> None:
    if value is not None and not least <= value <= most:
        raise LoadError(f"{name} {value}: must be {least:,.10g} to {most:,.10g}")
