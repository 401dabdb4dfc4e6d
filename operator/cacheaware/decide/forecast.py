"""How many pods will be needed when a pod that is ordered now serves: from the last hour alone.

How far back is the user's patience: `HORIZON` windows for shrinking, an hour by default. Who has
set a short one wants pods to go soon after a load, and not to be kept for its return.

A way to forecast is the highest minute of some time past, or the last minute and its trend. None is
best for all loads, so each is judged on the history itself: what it would have cost, with the
reserve that suits it best, to meet the work that came a cold start later. The cheapest is used.
Bursts shorter than a cold start can be met by standing reserve alone. Its size is a quantile of the
forecast's past errors, weighted by the work that came, so that quiet hours don't hide the bursts;
which quantile, the cost of a pod and the price of work that comes when there are too few decide: of
a load without bursts nearly all is carried, of one with rare and high ones not the last of them.
"""

from math import ceil

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from cacheaware.decide.history import MINUTE, STEP_S, History, Judged

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
"""One number for each step, oldest first."""

CARRIED = 0.8
"""Of the work in the history, so much has to come when forecast and reserve are enough for it."""
PRICE = 4.0
"""One per cent of the work that comes when pods are too few is worth so many per cent of the
replicas.
"""
HORIZON = 12
"""So many windows are looked back."""
LONG = 3
"""After so many windows it shows what recurs."""
EACH = 2
"""One way is judged anew in every so many steps, all of them in a minute and a half."""
LESS = 180
"""Or once in this part of the steps that they are judged on: an hour's judgement changes slowly."""


class Way(Struct, frozen=True):
    """A way to forecast."""

    minutes: int
    trend: bool = False
    """Whether the last minute goes on as it went over these minutes; else their highest minute."""

    @property
    def steps(self) -> int:
        """Steps that it looks back."""
        return self.minutes * MINUTE

    def __str__(self) -> str:
        if self.trend:
            return f"the last minute and its trend over {self.minutes} min"
        return "the highest minute of " + ("the last" if self.minutes == 1 else str(self.minutes))


WAYS = (
    *(Way(minutes) for minutes in (1, 3, 5, 10, 15, 30)),
    *(Way(minutes, trend=True) for minutes in (1, 3, 5)),
)


class Forecast(Struct, frozen=True, kw_only=True):
    """Pods that will be needed."""

    way: Way
    level: float
    reserve: float
    """On top of the level, for what comes beyond it; below 0 where the way sees too black."""
    lead_s: float
    past_s: float
    """How much of the past it rests on."""

    @property
    def need(self) -> float:
        """Pods, the reserve included."""
        return max(0.0, self.level + self.reserve)


def levels(needs: Floats) -> Floats:
    """The mean need of the minute up to each step.

    >>> levels(np.array([0.0, 4.0, 2.0])).tolist()
    [0.0, 2.0, 2.0]
    """
    sums = np.concatenate(([0.0], needs.cumsum()))
    young = sums[1 : MINUTE + 1]
    grown = sums[MINUTE + 1 :] - sums[1:-MINUTE]
    return np.concatenate((young / np.arange(1, len(young) + 1), grown / MINUTE))


def highest(numbers: Floats, steps: int) -> Floats:
    """The highest of the last so many numbers, at each of them.

    >>> highest(np.array([1.0, 3.0, 2.0, 0.0, 0.0]), 3).tolist()
    [1.0, 3.0, 3.0, 3.0, 2.0]
    """
    short = -len(numbers) % steps
    blocks = np.concatenate((numbers, np.full(short, -np.inf))).reshape(-1, steps)
    so_far = np.maximum.accumulate(blocks, axis=1).ravel()[: len(numbers)]
    to_come = np.maximum.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
    # A window that begins within a block ends within the next.
    later = so_far[steps:]
    return np.concatenate((so_far[:steps], np.maximum(to_come[1 : len(later) + 1], later)))


def path(way: Way, level: Floats, lead: int) -> Floats:
    """What a way would have said at each step; `level` is the mean of its last minute.

    >>> float(path(Way(1, trend=True), np.array([0.0] * 12 + [12.0]), 3)[-1])
    15.0
    """
    if not way.trend:
        return highest(level, way.steps)
    before = np.concatenate((np.repeat(level[:1], way.steps), level))[: len(level)]
    return highest(level, MINUTE) + np.maximum(level - before, 0.0) * (lead / way.steps)


def latest(way: Way, level: Floats, lead: int) -> float:
    """The last of a path.

    >>> latest(Way(1, trend=True), np.array([0.0] * 12 + [12.0]), 3)
    15.0
    """
    if not way.trend:
        return float(level[-way.steps :].max())
    rise = float(level[-1] - level[-way.steps - 1 :][0])
    return float(level[-MINUTE:].max()) + max(rise, 0.0) * (lead / way.steps)


def steps_of(lead_s: float) -> int:
    """A time ahead in steps, one or more."""
    return max(1, ceil(lead_s / STEP_S))


def lately(history: History, window_s: int) -> Floats:
    """The needs that count: of the last twelve windows; none where a window is no minute.

    A level is the mean of a minute: it would keep pods for longer than such a window does.
    """
    steps = int(HORIZON * window_s / STEP_S) if window_s >= MINUTE * STEP_S else 0
    needs = np.asarray(history.needs)
    return needs[max(0, len(needs) - steps) :]


def judged(history: History, lead_s: float, window_s: int) -> History:
    """The history with one way judged anew, where a step is over and it is long enough.

    Args:
        history: With this round noted.
        lead_s: From ordered to serving.
        window_s: For shrinking, as the user set it.
    """
    lead, needs = steps_of(lead_s), lately(history, window_s)
    if len(needs) < lead + MINUTE:
        return replace(history, judged=()) if history.judged else history
    each = max(EACH, len(needs) // LESS)
    if history.turn % each:
        return history
    at = history.turn // each % len(WAYS)
    known = list(history.judged or [None] * len(WAYS))
    known[at] = judgement(WAYS[at], needs, lead, int(LONG * window_s / STEP_S))
    return replace(history, judged=tuple(known))


def judgement(way: Way, needs: Floats, lead: int, long: int) -> Judged:
    """The reserve that would have been cheapest on top of a way, and what both would have cost.

    In mean replicas: those that there would have been, at least one; `lead` steps of a pod for each
    start; `PRICE` times the share of the work that came while there were too few. From `long` steps
    on, what happened once is no pattern.
    """
    said = path(way, levels(needs), lead)[:-lead]
    came = needs[lead:]
    few = len(said) < long
    least = quantile_of(said, came) if few else quantile_of(*without_worst(said, came, lead))
    reserve, missed = reserve_of(said, came, least)
    pods = np.maximum(said + reserve, 1.0)
    starts = np.maximum(np.diff(np.ceil(pods)), 0.0).sum()
    cost = pods.mean() * (1 + PRICE * missed) + starts * lead / len(pods)
    return Judged(reserve=reserve, cost=float(cost))


def without_worst(said: Floats, came: Floats, lead: int) -> tuple[Floats, Floats]:
    """What was said and what came, without the time around the worst surprise.

    What happened once is no pattern, and nobody keeps pods for an hour for it. What recurs stays.

    >>> said, came = np.array([1.0, 1.0, 1.0, 1.0, 1.0]), np.array([1.0, 1.0, 9.0, 3.0, 2.0])
    >>> [kept.tolist() for kept in without_worst(said, came, 1)]
    [[1.0, 1.0], [1.0, 2.0]]
    """
    worst = int((came - said).argmax())
    begin, end = max(0, worst - lead), worst + lead + 1
    return np.concatenate((said[:begin], said[end:])), np.concatenate((came[:begin], came[end:]))


def quantile_of(said: Floats, came: Floats) -> float:
    """Pods on top of what was said that would have carried `CARRIED` of the work that came.

    >>> quantile_of(np.full(10, 4.0), np.array([4.0] * 7 + [6.0] * 3))
    2.0
    """
    if not (work := came.sum()):
        return 0.0
    errors = came - said
    order = errors.argsort()
    done = came[order].cumsum()
    return float(errors[order[done.searchsorted(CARRIED * work)]])


def reserve_of(said: Floats, came: Floats, least: float) -> tuple[float, float]:
    """Pods on top of what was said, and the share of the work that they still would have missed.

    From `least` on, a pod more is kept while it carries a share of the work that is worth, at
    `PRICE`, its share of the cost:

    >>> reserve_of(np.full(10, 4.0), np.array([4.0] * 5 + [5.0] * 5), 0.0)[0]
    1.0
    >>> reserve_of(np.full(100, 4.0), np.array([4.0] * 99 + [5.0]), 0.0)[0]
    0.0
    """
    if not (work := came.sum()):
        return least, 0.0
    errors = came - said
    beyond = errors > least
    errors, needs = errors[beyond], came[beyond]
    order = errors.argsort()
    reserves = np.concatenate(([least], errors[order]))
    missing = needs.sum() - np.concatenate(([0.0], needs[order].cumsum()))
    missed = np.maximum(missing / work, 0.0)
    best = (reserves + PRICE * max(1.0, said.mean() + least) * missed).argmin()
    return float(reserves[best]), float(missed[best])


def forecast_of(history: History, lead_s: float, window_s: int) -> Forecast | None:
    """The cheapest way's word for now; None before any was judged."""
    known = [(one.cost, at, one.reserve) for at, one in enumerate(history.judged) if one]
    if not known:
        return None
    _, at, reserve = min(known)
    needs, looks_back = lately(history, window_s), WAYS[at].steps + 2 * MINUTE
    level = latest(WAYS[at], levels(needs[-looks_back:]), steps_of(lead_s))
    past_s = len(needs) * STEP_S
    return Forecast(way=WAYS[at], level=level, reserve=reserve, lead_s=lead_s, past_s=past_s)
