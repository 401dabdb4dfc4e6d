"""When a pod may shed load by itself: pure, and off unless it is asked for.

A cache that is full while requests wait, for so long, is relieved by a cordon: a lease, as the
operator's, so that nothing is left behind. What is unknown never leads to one.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.lifecycle import Lifecycle
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.settings import Settings

HOLDER: Final = "relief"
"""Who holds such a cordon."""
PROPAGATED_S: Final = 10.0
"""After this a cordon has reached those who send requests; trouble that goes on at each look for
so long will not end by itself."""
CALM: Final = 0.7
"""Share of the critical level at which a pod is given back early."""
CALM_S: Final = 5.0
"""So long, at each look: between two waves of requests a full engine looks empty for a moment."""


class Step(Enum):
    """What is to be done now."""

    NOTHING = auto()
    CORDON = auto()
    ABORT = auto()
    UNCORDON = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the user allows."""

    level: float
    """Critical usage, 0..1."""
    after_s: float
    lease_s: float
    every_s: float
    """Between the beginnings of two reliefs, and from the sidecar's start to the first."""
    abort: bool


def rules_of(settings: Settings) -> Rules | None:
    """The rules; None where relief is off."""
    if not settings.relief:
        return None
    return Rules(
        level=settings.relief_usage_percent / 100,
        after_s=float(settings.relief_after_seconds),
        lease_s=float(settings.relief_cordon_seconds),
        every_s=float(settings.relief_every_seconds),
        abort=settings.relief_abort,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Strain:
    """How long the pod has been in trouble, and when it was relieved; monotonic seconds."""

    since: float | None = None
    """The first of the looks in a row that showed the trouble."""
    calm: float | None = None
    """The first of those in a row that showed room."""
    last: float
    """When the last relief began; at first the sidecar's start, for a restart forgets."""
    aborted: bool = False
    """In that relief."""


def is_strained(sample: EngineSample | None, rules: Rules) -> bool:
    """Whether the cache is full and requests wait; what is unknown is no trouble."""
    if sample is None or sample.usage_max is None or sample.waiting is None:
        return False
    return sample.usage_max >= rules.level and sample.waiting > 0


def is_calm(sample: EngineSample | None, rules: Rules) -> bool:
    """Whether it is seen that there is room again and nothing waits."""
    if sample is None or sample.usage_max is None:
        return False
    return sample.usage_max <= CALM * rules.level and sample.waiting == 0


def observed(strain: Strain, sample: EngineSample | None, rules: Rules, now: float) -> Strain:
    """Takes a look; None for one that brought no page."""
    return replace(
        strain,
        since=_first(strain.since, now) if is_strained(sample, rules) else None,
        calm=_first(strain.calm, now) if is_calm(sample, rules) else None,
    )


def _first(before: float | None, now: float) -> float:
    return now if before is None else before


def step(strain: Strain, state: Lifecycle, rules: Rules, now: float) -> Step:
    """What is due after a look."""
    cordon = state.cordon
    if state.phase is Phase.CORDONED and cordon and cordon.by == HOLDER:
        if strain.calm is not None and now - strain.calm >= CALM_S:
            return Step.UNCORDON
        still = strain.since is not None and now - strain.since >= PROPAGATED_S
        late = still and now - cordon.began >= PROPAGATED_S
        return Step.ABORT if rules.abort and late and not strain.aborted else Step.NOTHING
    if state.phase is not Phase.SERVING or strain.since is None:
        return Step.NOTHING
    due = now - strain.since >= rules.after_s and now - strain.last >= rules.every_s
    return Step.CORDON if due else Step.NOTHING
