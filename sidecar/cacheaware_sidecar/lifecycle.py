"""The phases of a pod and what moves it from one to the next: a state machine without a clock.

loading -> warming -> serving <-> cordoned -> draining -> drained. Observation never unserves:
`serving` ends only by a cordon, a drain, or proof that the engine was replaced or died, which is
another start time, or three refusals or three unhealthy answers in a row. A timeout, a 401, a
page that can't be read and a restart of the sidecar prove nothing.

A drain begins from the engine's preStop hook. The kubelet runs that hook when the pod goes, but
also when it restarts the engine's container alone (a failed liveness probe). So a drain ends in
`loading` when a new engine shows up, and in the phase before it when the pod has outlived its
grace period: then no deletion was under way.
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
    cordoned_by: str | None = None


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
class Tick:
    """Time passed."""


@dataclass(frozen=True, slots=True)
class Cordoned:
    """The operator takes the pod out of the endpoints."""

    by: str


@dataclass(frozen=True, slots=True)
class Uncordoned:
    """The operator gives the pod back."""


Event = (
    Scraped
    | Refused
    | Silent
    | Healthy
    | Unhealthy
    | WarmupEnded
    | DrainBegun
    | Emptied
    | Tick
    | Cordoned
    | Uncordoned
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
    return _enter(state, Phase.LOADING, now, verdict=None)


def _replaced(state: Lifecycle, now: float) -> Lifecycle:
    state = replace(state, engine=state.engine + 1, gone=False, unhealthy=0)
    if state.phase is Phase.LOADING:
        return state
    return _enter(state, Phase.LOADING, now, verdict=None, drain=None)


@_after.register
def _(event: WarmupEnded, state: Lifecycle, now: float) -> Lifecycle:
    if state.phase is not Phase.WARMING or event.engine != state.engine:
        return state
    state = replace(state, verdict=event.verdict)
    if event.verdict is Verdict.FAILED:
        return state
    return _enter(state, Phase.CORDONED if state.cordoned_by else Phase.SERVING, now)


@_after.register
def _(event: DrainBegun, state: Lifecycle, now: float) -> Lifecycle:
    if state.drain:
        return state
    drain = Drain(
        began=now,
        deadline=now + event.seconds,
        outlived=now + event.grace + OUTLIVED_S,
        before=state.phase,
    )
    return _enter(state, Phase.DRAINING, now, drain=drain, refused=0)


@_after.register
def _(event: Emptied, state: Lifecycle, now: float) -> Lifecycle:
    del event
    return _enter(state, Phase.DRAINED, now) if state.phase is Phase.DRAINING else state


@_after.register
def _(event: Tick, state: Lifecycle, now: float) -> Lifecycle:
    del event
    drain = state.drain
    if not drain:
        return state
    if now >= drain.outlived and not state.gone:
        served = drain.before in {Phase.SERVING, Phase.CORDONED}
        return _enter(state, drain.before if served else Phase.LOADING, now, drain=None)
    if state.phase is Phase.DRAINING and now >= drain.deadline:
        return replace(state, drain=replace(drain, cut=True))
    return state


@_after.register
def _(event: Cordoned, state: Lifecycle, now: float) -> Lifecycle:
    state = replace(state, cordoned_by=event.by)
    return _enter(state, Phase.CORDONED, now) if state.phase is Phase.SERVING else state


@_after.register
def _(event: Uncordoned, state: Lifecycle, now: float) -> Lifecycle:
    del event
    state = replace(state, cordoned_by=None)
    return _enter(state, Phase.SERVING, now) if state.phase is Phase.CORDONED else state
