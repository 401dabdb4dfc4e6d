"""What a trace is like: rates, dispersion, token counts, how much its prompts share."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt

from cacheaware_sim.traces.trace import TraceRequest

WINDOWS_S = (1, 10, 60)
TOP_CLIENTS = 10


@dataclass(frozen=True, slots=True)
class Dispersion:
    """Counts of arrivals in whole windows since the start of the trace, its time 0."""

    iod: float
    """Index of dispersion: variance / mean of the counts. 1 is Poisson."""
    peak_to_mean: float


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens per request; quantiles lie on straight lines between the sorted values."""

    mean: float
    p50: float
    p90: float
    p99: float
    most: int


@dataclass(frozen=True, slots=True)
class TraceStatistics:
    """What `measure` finds. None: unknown, there is too little of it."""

    requests: int
    span_s: float
    """From the first arrival to the last one."""
    rate_per_s: float | None
    gap_cv: float | None
    """Coefficient of variation of the times between arrivals. 1 is Poisson."""
    dispersion: dict[int, Dispersion | None]
    """By window in seconds: 1, 10, 60."""
    prompt: TokenCounts | None
    output: TokenCounts | None
    clients: int
    top_clients_percent: float | None
    """Share of the requests that the ten busiest clients send."""
    prefix_hit_percent: float | None
    """Share of the prompt tokens that an infinite cache would hold: full blocks, over all requests
    that tell their prefix."""


class _Moments:
    """Mean and variance of what is added, in one pass."""

    def __init__(self) -> None:
        self.n = 0
        self.mean = 0.0
        self.squares = 0.0
        self.most = 0.0

    def add(self, value: float) -> None:
        self.n += 1
        step = value - self.mean
        self.mean += step / self.n
        self.squares += step * (value - self.mean)
        self.most = max(self.most, value)

    def add_zeros(self, count: int) -> None:
        if count:
            total = self.n + count
            self.squares += self.mean**2 * self.n * count / total
            self.mean *= self.n / total
            self.n = total

    @property
    def variance(self) -> float:
        return self.squares / self.n


class _Window:
    """Counts per window of one length; the last window, which is not whole, is left out."""

    def __init__(self, length_s: int) -> None:
        self.length_s = length_s
        self.index = 0
        self.count = 0
        self.closed = _Moments()

    def add(self, at: float) -> None:
        index = int(at // self.length_s)
        if index > self.index:
            self.closed.add(self.count)
            self.closed.add_zeros(index - self.index - 1)
            self.index, self.count = index, 0
        self.count += 1

    def dispersion(self) -> Dispersion | None:
        counts = self.closed
        if counts.n < 2 or counts.most == 0:
            return None
        return Dispersion(counts.variance / counts.mean, counts.most / counts.mean)


def measure(trace: Iterable[TraceRequest], *, block_size: int = 16) -> TraceStatistics:
    """The statistics, in one pass.

    Memory grows with the number of different token counts, clients and block names, not with the
    number of requests.
    """
    first = last = None
    requests = found = told = 0
    windows = [_Window(length) for length in WINDOWS_S]
    gaps = _Moments()
    prompts: Counter[int] = Counter()
    outputs: Counter[int] = Counter()
    clients: Counter[int] = Counter()
    cache: set[int] = set()
    for request in trace:
        at = request.at
        if first is None or last is None:
            first = at
        else:
            gaps.add(at - last)
        last = at
        requests += 1
        for window in windows:
            window.add(at)
        prompts[request.prompt_tokens] += 1
        outputs[request.output_tokens] += 1
        clients[request.client] += 1
        if request.prefix is not None:
            told += request.prompt_tokens
            found += _found(request.prefix, cache) * block_size
            cache.update(request.prefix)
    span = 0.0 if first is None or last is None else last - first
    top = sum(count for _, count in clients.most_common(TOP_CLIENTS))
    return TraceStatistics(
        requests=requests,
        span_s=span,
        rate_per_s=requests / span if span else None,
        gap_cv=sqrt(gaps.variance) / gaps.mean if span else None,
        dispersion={window.length_s: window.dispersion() for window in windows},
        prompt=_token_counts(prompts),
        output=_token_counts(outputs),
        clients=len(clients),
        top_clients_percent=100 * top / requests if requests else None,
        prefix_hit_percent=100 * found / told if told else None,
    )


def _found(prefix: tuple[int, ...], cache: set[int]) -> int:
    """How many leading names are in the cache."""
    for index, name in enumerate(prefix):
        if name not in cache:
            return index
    return len(prefix)


def _token_counts(counts: Counter[int]) -> TokenCounts | None:
    if not counts:
        return None
    total = counts.total()
    mean = sum(tokens * count for tokens, count in counts.items()) / total
    tokens = sorted(counts)
    places = list(accumulate(counts[value] for value in tokens))

    def quantile(share: float) -> float:
        place = share * (total - 1)
        low = tokens[bisect_right(places, int(place))]
        high = tokens[bisect_right(places, min(total - 1, int(place) + 1))]
        return low + (high - low) * (place % 1)

    return TokenCounts(mean, quantile(0.5), quantile(0.9), quantile(0.99), tokens[-1])
