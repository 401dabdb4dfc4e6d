"""How fast the Horizontal Pod Autoscaler lets the replicas change: windows and rates.

Source: Kubernetes 1.33, pkg/controller/podautoscaler/horizontal.go
(stabilizeRecommendationWithBehaviors, convertDesiredReplicasWithBehaviorRate), defaults as
documented for `behavior`. An HPA that has no `behavior` at all takes an older path, which differs
where fewer than 4 pods run: it grows to max(2n, 4) at once.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from cacheaware_sim.policies.policy import Limits


@dataclass(frozen=True, slots=True)
class Rate:
    """One scaling policy: at most so many pods, or so many percent, in a period."""

    type: Literal["Pods", "Percent"]
    value: int
    period_s: float


@dataclass(frozen=True, slots=True)
class Rules:
    """`scaleUp` or `scaleDown`."""

    window_s: float
    """stabilizationWindowSeconds."""
    rates: tuple[Rate, ...]
    select: Literal["Max", "Min", "Disabled"] = "Max"


@dataclass(frozen=True, slots=True)
class Behavior:
    """Both directions."""

    up: Rules = Rules(0, (Rate("Percent", 100, 15), Rate("Pods", 4, 15)))
    down: Rules = Rules(300, (Rate("Percent", 100, 15),))


DEFAULT_BEHAVIOR = Behavior()


class Recommended(NamedTuple):
    """What the metrics asked for once."""

    at: float
    replicas: int


class Changed(NamedTuple):
    """Replicas that were written: + added, - removed."""

    at: float
    by: int


def stabilized(
    current: int, desired: int, past: Iterable[Recommended], behavior: Behavior, now: float
) -> int:
    """The lowest of the window for growing, the highest of the window for shrinking.

    >>> past = (Recommended(0, 6), Recommended(200, 3))
    >>> stabilized(6, 2, past, Behavior(), 250), stabilized(6, 2, past, Behavior(), 400)
    (6, 3)
    """
    past = tuple(past)
    up = min([desired, *(r.replicas for r in past if r.at > now - behavior.up.window_s)])
    down = max([desired, *(r.replicas for r in past if r.at > now - behavior.down.window_s)])
    return min(max(current, up), down)


def limited(
    current: int,
    desired: int,
    changes: Sequence[Changed],
    behavior: Behavior,
    *,
    limits: Limits,
    now: float,
) -> int:
    """What the rates and the limits leave of a change.

    >>> limited(5, 30, (), Behavior(), limits=Limits(1, 40), now=0)
    10
    """
    if desired > current:
        most = max(_up_limit(current, changes, behavior.up, now), current)
        return min(desired, most, limits.max_replicas)
    if desired < current:
        least = min(_down_limit(current, changes, behavior.down, now), current)
        return max(desired, least, limits.min_replicas)
    return current


def _up_limit(current: int, changes: Sequence[Changed], rules: Rules, now: float) -> int:
    if rules.select == "Disabled":
        return current
    allowed = []
    for rate in rules.rates:
        start = _at_period_start(current, changes, rate.period_s, now)
        pods = rate.value if rate.type == "Pods" else start * rate.value / 100
        allowed.append(math.ceil(start + pods))
    return max(allowed) if rules.select == "Max" else min(allowed)


def _down_limit(current: int, changes: Sequence[Changed], rules: Rules, now: float) -> int:
    if rules.select == "Disabled":
        return current
    allowed = []
    for rate in rules.rates:
        start = _at_period_start(current, changes, rate.period_s, now)
        pods = rate.value if rate.type == "Pods" else start * rate.value / 100
        allowed.append(math.floor(start - pods))
    return min(allowed) if rules.select == "Max" else max(allowed)


def _at_period_start(current: int, changes: Sequence[Changed], period_s: float, now: float) -> int:
    return current - sum(change.by for change in changes if change.at > now - period_s)
