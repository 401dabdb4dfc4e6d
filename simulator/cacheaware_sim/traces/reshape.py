"""Traces made from traces: more of it, less of it, a part of it. All stream, memory stays flat."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from math import inf
from random import Random

from cacheaware_sim.traces.fields import LONGEST_S
from cacheaware_sim.traces.randomness import stream
from cacheaware_sim.traces.trace import TraceRequest

MOST = 1000.0
"""The largest factor."""
JITTER_S = 2.0
WINDOW_S = 600.0
"""ServeGen's windows: a client's rate and burst shape are told for ten minutes."""
NAMES_APART = 2**48
"""Between the block names of two copies."""


def scaled(
    trace: Iterable[TraceRequest], k: float, *, jitter_s: float = JITTER_S, seed: int = 0
) -> Iterator[TraceRequest]:
    """Each request k times, each copy up to `jitter_s` later; a fraction is a probability.

    k = 2.5: two copies, and a third one in half of the cases. k = 1 is the trace as it is
    (`jittered` moves it, too). A copy keeps its client. Its blocks get names of their own: the
    n-th copies of all requests share what the requests shared, but no copy finds the cache of its
    original, so the prefix hit ratio stays. Holds k x rate x `jitter_s` requests.

    Raises:
        ValueError: k is not above 0 and at most 1,000, or a negative jitter.
    """
    _within("scale", k, MOST)
    if not 0 <= jitter_s < inf:
        raise ValueError(f"jitter_s {jitter_s}: must be a number of at least 0")
    return iter(trace) if k == 1 else _copied(trace, k, jitter_s, stream(seed, "scaled"))


def jittered(
    trace: Iterable[TraceRequest], *, jitter_s: float = JITTER_S, seed: int = 0
) -> Iterator[TraceRequest]:
    """Each request up to `jitter_s` later: the same load in another run."""
    return _copied(trace, 1, jitter_s, stream(seed, "jittered"))


def _copied(
    trace: Iterable[TraceRequest], k: float, jitter_s: float, rng: Random
) -> Iterator[TraceRequest]:
    held: list[tuple[float, int, TraceRequest]] = []
    serial = 0
    for request in trace:
        while held and held[0][0] <= request.at:
            yield heapq.heappop(held)[2]
        for copy in range(int(k) + (rng.random() < k % 1)):
            at = request.at + rng.random() * jitter_s
            serial += 1
            heapq.heappush(held, (at, serial, _copy(request, at, copy)))
    while held:
        yield heapq.heappop(held)[2]


def _copy(request: TraceRequest, at: float, copy: int) -> TraceRequest:
    prefix = request.prefix
    if copy and prefix is not None:
        prefix = tuple([name + copy * NAMES_APART for name in prefix])
    return request._replace(at=at, prefix=prefix)


def stretched(
    trace: Iterable[TraceRequest], factor: float, *, window_s: float = WINDOW_S, seed: int = 0
) -> Iterator[TraceRequest]:
    """Each client's rate times `factor`, with the clients and the shapes of their bursts.

    Each client's arrivals in a window of `window_s` are read as a ring, from a random place on:
    `factor` rounds of it are laid into the window, so the gaps between its requests are stretched
    by 1 / `factor` (factor 2: the ring twice at twice the speed; 0.5: half of the ring at half the
    speed). What changes from window to window stays: the day's shape, who sends how much. Between
    windows and among clients the places are independent. factor = 1 is the trace as it is. Later
    rounds have block names of their own, as in `scaled`. Holds one window of requests.

    Raises:
        ValueError: The factor is not above 0 and at most 1,000, or the window not above 0.
    """
    _within("stretch factor", factor, MOST)
    _within("window_s", window_s, LONGEST_S)
    if factor == 1:
        return iter(trace)
    return _windows(trace, factor, window_s, stream(seed, "stretched"))


def _windows(
    trace: Iterable[TraceRequest], factor: float, window_s: float, rng: Random
) -> Iterator[TraceRequest]:
    for index, window in groupby(trace, key=lambda request: request.at // window_s):
        start = index * window_s
        clients: defaultdict[int, list[TraceRequest]] = defaultdict(list)
        for request in window:
            clients[request.client].append(request)
        laid = [
            one
            for requests in clients.values()
            for one in _rounds(requests, factor, start, window_s, rng.random() * window_s)
        ]
        yield from sorted(laid, key=lambda request: request.at)


def _rounds(
    ring: list[TraceRequest], factor: float, start: float, length: float, place: float
) -> Iterator[TraceRequest]:
    """The requests from `place` on, for factor x length seconds of the ring."""
    end = place + factor * length
    for turn in range(int(end // length) + 1):
        for request in ring:
            on_ring = request.at - start + turn * length
            if place <= on_ring < end:
                at = min(start + (on_ring - place) / factor, start + length)
                yield _copy(request, at, int((on_ring - place) // length))


def thinned(trace: Iterable[TraceRequest], p: float, *, seed: int = 0) -> Iterator[TraceRequest]:
    """Each request with probability p. Bursts get smoother by it: see `stretched`.

    Raises:
        ValueError: p is not above 0 and at most 1.
    """
    _within("thinning probability", p, 1.0)
    rng = stream(seed, "thinned")
    return (request for request in trace if rng.random() < p)


def between(
    trace: Iterable[TraceRequest], start_s: float = 0.0, end_s: float = inf
) -> Iterator[TraceRequest]:
    """The requests from `start_s` on and before `end_s`; `start_s` becomes 0.

    Raises:
        ValueError: Not 0 <= start < end.
    """
    if not 0 <= start_s < end_s:
        raise ValueError(f"from {start_s}, to {end_s}: must be 0 <= from < to")
    return _part(trace, start_s, end_s)


def _part(trace: Iterable[TraceRequest], start_s: float, end_s: float) -> Iterator[TraceRequest]:
    for request in trace:
        if request.at >= end_s:
            return
        if request.at >= start_s:
            yield request._replace(at=request.at - start_s)


def split(
    reopen: Callable[[], Iterable[TraceRequest]], at_s: float
) -> tuple[Iterator[TraceRequest], Iterator[TraceRequest]]:
    """(train, test): what comes before `at_s`, and what comes from then on, both from 0 on.

    `reopen` gives the trace anew, as `partial(open_trace, path)` does: two passes, no memory.

    Raises:
        ValueError: The time is not above 0.
    """
    _within("split time", at_s, inf)
    return between(reopen(), 0.0, at_s), between(reopen(), at_s)


def _within(name: str, value: float, most: float) -> None:
    if not 0 < value <= most:
        limit = "" if most == inf else f" and at most {most:,.10g}"
        raise ValueError(f"{name} {value}: must be above 0{limit}")
