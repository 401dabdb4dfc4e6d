"""How many replicas the load asks for, before windows, rates and bounds."""

from msgspec import Struct

from cacheaware.decide.decision import Term
from cacheaware.decide.demand import Signal
from cacheaware.decide.latency import EFFECT_SECONDS, FirstToken, first_token
from cacheaware.decide.memory import Memory
from cacheaware.decide.policy import Policy
from cacheaware.decide.silence import overloaded_and_silent
from cacheaware.decide.supply import Supply

MEASURED = 2
"""So many signals, the first, are of this moment: the others rest on the past."""


class Recommendation(Struct, frozen=True, kw_only=True):
    """What the load asks for, and how that was found."""

    replicas: int
    raw: int | None = None
    """Without tolerance; None when nothing is known."""
    signals: tuple[Signal, ...] = ()
    terms: tuple[Term, ...] = ()
    tolerated: bool = False
    """The load differs from the target, but by less than the tolerance."""
    held: bool = False
    """It would shrink if what is unknown were idle."""
    doubted: bool = False
    """It would grow if what is unknown were full."""
    silent: bool = False
    """Most pods time out above target."""
    fallback: bool = False


def all_unknown(supply: Supply) -> bool:
    """Whether there are pods that served and not one that serves tells its use or its queue."""
    loads = [pod.load for pod in supply.serving if pod.load is not None]
    told = any(load.usage is not None or load.waiting is not None for load in loads)
    return bool(supply.serving or supply.away) and not told


def recommend(
    current: int,
    supply: Supply,
    signals: tuple[Signal, ...],
    memory: Memory,
    *,
    policy: Policy,
    now: float,
) -> Recommendation:
    """Any signal grows the fleet; all signals together shrink it.

    `memory` is this round's: it knows since when nothing was known and where the silence began.
    """
    silent = overloaded_and_silent(supply, policy)
    grown_lately = memory.grown_within(EFFECT_SECONDS, now)
    latency = first_token(supply, policy, grown=grown_lately)
    found = by_load(current, signals, policy, latency, last=silent)
    if silent:
        found = stepped(found, current, supply, memory)
    return with_fallback(found, current, policy, memory, now)


def by_load(
    current: int,
    signals: tuple[Signal, ...],
    policy: Policy,
    latency: FirstToken | None,
    *,
    last: bool,
) -> Recommendation:
    """What the signals ask for; with `last`, the last known ones will do when none is known."""
    if not signals or not (last or any(signal.known for signal in signals[:MEASURED])):
        return Recommendation(replicas=current, signals=signals)
    if (up := grown(current, signals, latency, policy)) > current:
        return told(current, up, signals, latency, growing=True)
    down = shrunk(current, signals, latency, policy)
    return told(current, min(current, down), signals, latency, growing=False)


def grown(
    current: int, signals: tuple[Signal, ...], latency: FirstToken | None, policy: Policy
) -> int:
    """The most that any signal beyond its tolerance asks for; 0 where none is."""
    most = policy.scale_up.tolerance_percent
    beyond = [
        one for one in signals if one.compared(one.low, current, 100 + one.tolerance(most)) > 0
    ]
    asked = [one.replicas(one.low) for one in beyond]
    return max(0, *asked, latency.replicas(current) if latency else 0)


def shrunk(
    current: int, signals: tuple[Signal, ...], latency: FirstToken | None, policy: Policy
) -> int:
    """What all signals agree to do with; the current replicas while one is within tolerance."""
    if latency is not None and latency.blocks:
        return current
    least = policy.scale_down.tolerance_percent
    if any(one.compared(one.high, current, 100 - one.tolerance(least)) >= 0 for one in signals):
        return current
    return max(one.replicas(one.high) for one in signals)


def told(
    current: int,
    replicas: int,
    signals: tuple[Signal, ...],
    latency: FirstToken | None,
    *,
    growing: bool,
) -> Recommendation:
    """A recommendation with its terms: of the low demand when growing, of the high otherwise."""
    low = max(one.replicas(one.low) for one in signals)
    high = max(one.replicas(one.high) for one in signals)
    terms = tuple(one.term(one.low if growing else one.high) for one in signals)
    if latency is not None:
        terms = (*terms, latency.term(current))
    by_signals = low if low > current else min(high, current)
    raw = max(by_signals, latency.replicas(current) if latency else 0)
    return Recommendation(
        replicas=replicas,
        raw=raw,
        signals=signals,
        terms=terms,
        tolerated=replicas == current != raw,
        held=low < current <= high,
        doubted=low <= current < high,
    )


def stepped(found: Recommendation, current: int, supply: Supply, memory: Memory) -> Recommendation:
    """One step up, once, and only if none is on its way; the fleet does not shrink."""
    first = memory.silent_from == memory.current and not supply.on_their_way
    return Recommendation(
        replicas=max(found.replicas, current + 1) if first else current,
        raw=found.raw,
        signals=found.signals,
        terms=found.terms,
        silent=True,
    )


def with_fallback(
    found: Recommendation, current: int, policy: Policy, memory: Memory, now: float
) -> Recommendation:
    """After the user's time without any knowledge: not fewer than the fallback."""
    after, replicas, since = (
        policy.fallback_after_seconds,
        policy.fallback_replicas,
        memory.unknown_since,
    )
    if after is None or replicas is None or since is None or now - since < after:
        return found
    return Recommendation(
        replicas=max(found.replicas, current, replicas),
        raw=found.raw,
        signals=found.signals,
        terms=found.terms,
        silent=found.silent,
        fallback=True,
    )
