"""Fits the engine model to the first half of a log, to be judged by the second.

What is fitted are the five coefficients of an iteration and, where the cache is short, one number
more: how much longer the cache lasts because prompts begin alike. The logged prompts are turns of
conversations, of which some share their first blocks; a log tells the lengths, not which. One thing
is read from the log itself: what the first prompt took beyond its iterations, when kernels were
used for the first time.

All of these are searched as logarithms by Nelder and Mead's method, so none becomes negative. Of
several starts the one counts whose end is the best for the first half.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean
from typing import NamedTuple

from scipy.optimize import minimize

from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.first_shapes import Shape
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.profiles import Profile
from cacheaware_sim.validate.figures import Figures, errors, measured
from cacheaware_sim.validate.replay import replay
from cacheaware_sim.validate.request_logs import ServedRequest

WEIGHTS = {"ttft": 1.0, "tpot": 2.0, "e2e": 1.0}
COEFFICIENTS = ("c0_ms", "c1_ms_per_seq", "c2_ms_per_ktok", "a1_ms_per_ktok", "a2_ms_per_mtok2")
STEP = 0.05
"""Of the logarithm of a coefficient, at the start: it comes from a fit and is about right."""
SHARED = (0.005, 0.02)
"""Where the search for the share that prompts have in common starts."""
SHARED_STEP = 0.7
MOST_REPLAYS = 400
"""In one search: it has come to an end before."""


@dataclass(frozen=True, slots=True)
class Fit:
    """An engine that was fitted, and what it makes of all requests of the log."""

    cost: IterationCost
    stall_s: float
    """Seconds that the first prompt took beyond its iterations."""
    shared: float | None
    """By which part the KV pool is larger than logged; None where it was not looked for."""
    objective: float
    """Of the first half."""
    replays: int
    served: tuple[ServedRequest, ...]
    preemptions: int


def fit(profile: Profile, logged: Sequence[ServedRequest], *, short_of_cache: bool) -> Fit:
    """The engine whose first half is most like that of the log.

    Args:
        profile: Where to begin, and the scheduler and the KV pool.
        logged: All requests in the order of their arrival; all are replayed, but the objective sees
            only the first half of them.
        short_of_cache: Whether the pool's size matters: shared prompts are then looked for.
    """
    half = len(logged) // 2
    real = measured(logged[:half])

    def objective_at(point: Sequence[float]) -> float:
        served, _ = replay(_config(profile, logged[0], point), logged)
        return objective(real, measured(served[:half]))

    searches = [
        _search(objective_at, profile.cost, shared)
        for shared in (SHARED if short_of_cache else (None,))
    ]
    found = min(searches, key=lambda one: one.objective)
    point = found.point
    served, preemptions = replay(_config(profile, logged[0], point), logged)
    cost = _cost(point)
    return Fit(
        cost=cost,
        stall_s=stall_s(cost, profile.max_num_batched_tokens, logged[0]),
        shared=_shared(point) if short_of_cache else None,
        objective=found.objective,
        replays=sum(one.replays for one in searches),
        served=served,
        preemptions=preemptions,
    )


class _Search(NamedTuple):
    objective: float
    point: list[float]
    replays: int


def _search(
    objective_at: Callable[[Sequence[float]], float], cost: IterationCost, shared: float | None
) -> _Search:
    start = [log(getattr(cost, name)) for name in COEFFICIENTS]
    steps = [STEP] * len(start)
    if shared is not None:
        start.append(log(shared))
        steps.append(SHARED_STEP)
    corners = [
        start,
        *([*start[:at], start[at] + step, *start[at + 1 :]] for at, step in enumerate(steps)),
    ]
    options = {"initial_simplex": corners, "maxfev": MOST_REPLAYS, "xatol": 1e-2, "fatol": 1e-4}
    found = minimize(objective_at, start, method="Nelder-Mead", options=options)
    return _Search(float(found.fun), [float(value) for value in found.x], int(found.nfev))


def objective(real: Mapping[str, Figures], simulated: Mapping[str, Figures]) -> float:
    """Mean relative error of mean, p50, p90 and p99: of TTFT, twice of TPOT, and of the whole.

    >>> one, two = Figures(1.0, 1.0, 1.0, 1.0), Figures(1.5, 0.5, 1.0, 1.0)
    >>> objective({"ttft": one, "tpot": one, "e2e": one}, {"ttft": one, "tpot": two, "e2e": two})
    0.75
    """
    return sum(
        weight * fmean(map(abs, errors(real[name], simulated[name])))
        for name, weight in WEIGHTS.items()
    )


def stall_s(cost: IterationCost, batched_tokens: int, first: ServedRequest) -> float:
    """What the first prompt took beyond its iterations.

    >>> cost = IterationCost(c0_ms=100, c1_ms_per_seq=0, c2_ms_per_ktok=0, a1_ms_per_ktok=100,
    ...                      a2_ms_per_mtok2=0)
    >>> stall_s(cost, 2000, ServedRequest(0.0, 1.0, 2.0, prompt_tokens=3000, output_tokens=9))
    0.5
    """
    iterations = -(-first.prompt_tokens // batched_tokens)
    own_s = iterations * cost.decode_s(0, 0) + cost.chunk_s(0, first.prompt_tokens)
    return max(first.ttft_s - own_s, 0.0)


def _cost(point: Sequence[float]) -> IterationCost:
    return IterationCost(
        **{name: exp(value) for name, value in zip(COEFFICIENTS, point, strict=False)}
    )


def _shared(point: Sequence[float]) -> float:
    return exp(point[-1]) if len(point) > len(COEFFICIENTS) else 0.0


def _config(profile: Profile, first: ServedRequest, point: Sequence[float]) -> EngineConfig:
    cost = _cost(point)
    return profile.engine(
        cost=cost,
        num_blocks=round(profile.num_blocks * (1 + _shared(point))),
        stalls_s={Shape.PREFILL: stall_s(cost, profile.max_num_batched_tokens, first)},
    )
