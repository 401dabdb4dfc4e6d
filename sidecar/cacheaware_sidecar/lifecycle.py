"""The phases of a pod and what moves it from one to the next: a state machine without a clock.

loading -> warming -> serving <-> cordoned -> draining -> drained. Observation never unserves:
`serving` ends only by a cordon, a drain, or proof that the engine was replaced or died, which is
another start time, or three refusals or three unhealthy answers in a row. A timeout, a 401, a
page that can't be read and a restart of the sidecar prove nothing.

A drain begins from the engine's preStop hook. The kubelet runs that hook when the pod goes, but
also when it restarts the engine's container alone (a failed liveness probe). So a drain ends in
`loading` when a new engine shows up, and in the phase before it when the pod has outlived its
grace period: then no deletion was under way.

A cordon is a lease on a serving pod: it ends when it is taken back, when nobody has renewed it
in time, and with its engine. A drain overrides it; the lease goes on to run meanwhile. The tokens
that began and renewed a cordon are spent when it ends.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import singledispatch
from typing import Any

from cacheaware_sidecar.phase import Phase

PROOF = 3
"""So many refusals, or unhealthy answers, in a row prove that the engine is gone."""
SAME_START_S = 0.5
"""Start times closer than this are the same start, read through rounding."""
STARTS_KEPT = 8
OUTLIVED_S = 30.0
"""A pod that lives this long after its grace period is not being deleted."""
LEASE_S = 60.0
LONGEST_LEASE_S = 300.0
LEEWAY_S = 60.0
"""So far the clocks of two machines may differ."""
SPENT_KEPT = 256


class Verdict(StrEnum):
    """How a warm-up ended."""

    WARM = "Warm"
    READY = "Ready"
    """The budget was used up; the pod serves all the same."""
    FAILED = "Failed"
    """The budget was used up; the pod stays not ready."""
    NOT_APPLICABLE = "NotApplicable"
    OFF = "Off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """A final drain; times in seconds of the monotonic clock."""

    began: float
    deadline: float
    outlived: float
    """From here on the pod is known not to be in deletion."""
    before: Phase
    """The phase that the drain ended."""
    cut: bool = False
    """The deadline came before the pod was empty."""
    limit: float | None = None
    """The operator's word on how long any hook may wait; None where it said nothing."""


@dataclass(frozen=True, slots=True)
class UsedToken:
    """A token that a control call carried: which, and when it expires, in Unix seconds."""

    id: str
    expires: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """A lease on the pod; times in seconds of the monotonic clock."""

    by: str
    """Who holds it: the uid of a CacheAwareScaler."""
    began: float
    until: float
    tokens: tuple[UsedToken, ...] = ()
    """Those that began and renewed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """All that decides the phase. Times in seconds of the monotonic clock."""

    phase: Phase = Phase.LOADING
    since: float
    """When the phase began."""
    engine: int = 1
    """Counts the engines seen in this pod, so that news of an older one is told apart."""
    starts: tuple[float, ...] = ()
    """Start times that answered lately; several where several processes share the port."""
    refused: int = 0
    unhealthy: int = 0
    """In a row."""
    gone: bool = False
    """The engine died and none has answered since."""
    verdict: Verdict | None = None
    drain: Drain | None = None
    cordon: Cordon | None = None
    """Only of a pod that is cordoned, or was when its drain began."""
    spent: tuple[UsedToken, ...] = ()
    """Of cordons that have ended, until they expire."""


@dataclass(frozen=True, slots=True)
class Scraped:
    """A metrics page was read; `started_at` is the engine's own start time, if it tells."""

    started_at: float | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Nobody listens on the engine's port."""


@dataclass(frozen=True, slots=True)
class Silent:
    """Somebody listens, but the page could not be read (timeout, 401, redirect, ...)."""


@dataclass(frozen=True, slots=True)
class Healthy:
    """The engine says that it is well."""


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """The engine says that it is not well."""


@dataclass(frozen=True, slots=True)
class WarmupEnded:
    """The warm-up of this engine ended."""

    engine: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class DrainBegun:
    """A preStop hook asks for the final drain, which may take `seconds` of a grace period."""

    seconds: float
    grace: float


@dataclass(frozen=True, slots=True)
class Emptied:
    """Nothing runs or waits any more."""


@dataclass(frozen=True, slots=True)
class Hung:
    """The engine has answered nothing for so long that nothing is lost with it."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


@dataclass(frozen=True, slots=True)
class Cordoned:
    """The operator takes the pod out of the endpoints, or keeps it out."""

    by: str
    seconds: float = LEASE_S
    token: UsedToken | None = None
    """What the call carried."""
    wall: float = 0.0
    """Unix time: spent tokens that have expired by then are forgotten."""


@dataclass(frozen=True, slots=True)
class Uncordoned:
    """The operator gives the pod back."""

    token: UsedToken | None = None


@dataclass(frozen=True, slots=True)
class DeadlineSet:
    """The operator says that the final drain has these seconds left; only less is taken."""

    seconds: float


Event = (
    Scraped
    | Refused
    | Silent
    | Healthy
    | Unhealthy
    | WarmupEnded
    | DrainBegun
    | Emptied
    | Hung
    | Tick
    | Cordoned
    | Uncordoned
    | DeadlineSet
)


def advance(state: Lifecycle, event: Event, now: float) -> Lifecycle:
    """The state after an event at the time `now`."""
    return _after(event, state, now)


def is_ready(state: Lifecycle, now: float) -> bool:
    """Whether the pod may get requests: serving, or in a final drain until empty or cut.

    A draining pod stays ready because a load balancer falls back to it where nothing else is
    left; its endpoint is `terminating` all the same. One that was not ready before stays so.
    """
    if state.phase is Phase.DRAINING and state.drain:
        return state.drain.before is Phase.SERVING and now < state.drain.deadline
    return state.phase is Phase.SERVING


def _enter(state: Lifecycle, phase: Phase, now: float, **changes: Any) -> Lifecycle:
    return replace(state, phase=phase, since=now, **changes)


@singledispatch
def _after(event: Event, state: Lifecycle, now: float) -> Lifecycle:
    raise AssertionError(event, state, now)


@_after.register
def _(event: Scraped, state: Lifecycle, now: float) -> Lifecycle:
    state = replace(state, refused=0)
    start = event.started_at
    if start is None or any(abs(start - known) < SAME_START_S for known in state.starts):
        return state
    starts = (*state.starts, start)[-STARTS_KEPT:]
    if not state.starts:
        return replace(state, starts=starts)
    return _replaced(replace(state, starts=starts), now)


@_after.register
def _(event: Refused, state: Lifecycle, now: float) -> Lifecycle:
    del event
    state = replace(state, refused=state.refused + 1)
    return _died(state, now) if state.refused == PROOF else state


@_after.register
def _(event: Silent, state: Lifecycle, now: float) -> Lifecycle:
    del event, now
    return replace(state, refused=0)


@_after.register
def _(event: Healthy, state: Lifecycle, now: float) -> Lifecycle:
    del event
    state = replace(state, refused=0, unhealthy=0)
    if state.gone:
        state = _replaced(state, now)
    return _enter(state, Phase.WARMING, now) if state.phase is Phase.LOADING else state


@_after.register
def _(event: Unhealthy, state: Lifecycle, now: float) -> Lifecycle:
    del event
    if state.drain:  # an engine that shuts down may say so while its last requests still run
        return replace(state, refused=0)
    state = replace(state, refused=0, unhealthy=state.unhealthy + 1)
    return _died(state, now) if state.unhealthy == PROOF else state


def _died(state: Lifecycle, now: float) -> Lifecycle:
    state = replace(state, starts=())
    if state.phase is Phase.LOADING:
        return state
    state = replace(state, gone=True)
    if state.phase is Phase.DRAINED:
        return state
    if state.phase is Phase.DRAINING:
        return _enter(state, Phase.DRAINED, now)
    return _enter(_cordon_ended(state), Phase.LOADING, now, verdict=None)


def _replaced(state: Lifecycle, now: float) -> Lifecycle:
    state = replace(state, engine=state.engine + 1, gone=False, unhealthy=0)
    if state.phase is Phase.LOADING:
        return state
    return _enter(_cordon_ended(state), Phase.LOADING, now, verdict=None, drain=None)


@_after.register
def _(event: WarmupEnded, state: Lifecycle, now: float) -> Lifecycle:
    if state.phase is not Phase.WARMING or event.engine != state.engine:
        return state
    state = replace(state, verdict=event.verdict)
    if event.verdict is Verdict.FAILED:
        return state
    return _enter(state, Phase.SERVING, now)


@_after.register
def _(event: DrainBegun, state: Lifecycle, now: float) -> Lifecycle:
    held = state.drain
    if held and not _is_over(state, held):
        return state
    limit, deadline = held.limit if held else None, now + event.seconds
    drain = Drain(
        began=now,
        deadline=deadline if limit is None else min(deadline, limit),
        outlived=now + event.grace + OUTLIVED_S,
        before=held.before if held else state.phase,
        limit=limit,
    )
    return _enter(state, Phase.DRAINING, now, drain=drain, refused=0)


def _is_over(state: Lifecycle, drain: Drain) -> bool:
    """Whether a hook that comes now was not waited for: requests may have come since.

    Nobody was deleting the pod then, or its grace period is longer than the template's.
    """
    return drain.cut or (state.phase is Phase.DRAINED and not state.gone)


@_after.register
def _(event: Emptied | Hung, state: Lifecycle, now: float) -> Lifecycle:
    del event
    return _enter(state, Phase.DRAINED, now) if state.phase is Phase.DRAINING else state


@_after.register
def _(event: Tick, state: Lifecycle, now: float) -> Lifecycle:
    del event
    if state.cordon and now >= state.cordon.until:
        state = _uncordoned(state, now)
    drain = state.drain
    if not drain:
        return state
    if now >= drain.outlived and not state.gone:
        return _enter(state, _phase_again(state, drain), now, drain=None)
    if state.phase is Phase.DRAINING and now >= drain.deadline:
        return replace(state, drain=replace(drain, cut=True))
    return state


def _phase_again(state: Lifecycle, drain: Drain) -> Phase:
    """Where a pod that was not deleted goes on."""
    if drain.before not in {Phase.SERVING, Phase.CORDONED}:
        return Phase.LOADING
    return Phase.CORDONED if state.cordon else Phase.SERVING


@_after.register
def _(event: Cordoned, state: Lifecycle, now: float) -> Lifecycle:
    held = state.cordon
    if state.phase not in {Phase.SERVING, Phase.CORDONED} or (held and held.by != event.by):
        return state
    held = held or Cordon(by=event.by, began=now, until=now)
    state = replace(
        state,
        cordon=replace(held, until=now + event.seconds, tokens=_with(held.tokens, event.token)),
        spent=tuple(each for each in state.spent if each.expires + LEEWAY_S > event.wall),
    )
    return state if state.phase is Phase.CORDONED else _enter(state, Phase.CORDONED, now)


@_after.register
def _(event: Uncordoned, state: Lifecycle, now: float) -> Lifecycle:
    if not state.cordon:
        return state
    tokens = _with(state.cordon.tokens, event.token)
    return _uncordoned(replace(state, cordon=replace(state.cordon, tokens=tokens)), now)


def _uncordoned(state: Lifecycle, now: float) -> Lifecycle:
    state = _cordon_ended(state)
    return _enter(state, Phase.SERVING, now) if state.phase is Phase.CORDONED else state


def _cordon_ended(state: Lifecycle) -> Lifecycle:
    if not state.cordon:
        return state
    return replace(state, cordon=None, spent=(*state.spent, *state.cordon.tokens)[-SPENT_KEPT:])


def _with(tokens: tuple[UsedToken, ...], token: UsedToken | None) -> tuple[UsedToken, ...]:
    if token is None or any(each.id == token.id for each in tokens):
        return tokens
    return (*tokens, token)[-SPENT_KEPT:]


@_after.register
def _(event: DeadlineSet, state: Lifecycle, now: float) -> Lifecycle:
    drain = state.drain
    if not drain:
        return state
    told = now + event.seconds
    limit = told if drain.limit is None else min(told, drain.limit)
    drain = replace(drain, deadline=min(told, drain.deadline), limit=limit)
    return replace(state, drain=drain)
