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

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import ceil, inf
from operator import sub

from cacheaware.decide.history import MINUTE, STEP_S, History, Judged

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
"""One way is judged anew in every so many steps: all of them in a minute and a half."""


@dataclass(frozen=True, slots=True)
class Way:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
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


def levels(needs: Sequence[float]) -> list[float]:
    """The mean need of the minute up to each step.

    >>> levels([0.0, 4.0, 2.0])
    [0.0, 2.0, 2.0]
    """
    sums = [0.0, *accumulate(needs)]
    young = [total / at for at, total in enumerate(sums[1 : MINUTE + 1], 1)]
    grown = [more / MINUTE for more in map(sub, sums[MINUTE + 1 :], sums[1:])]
    return young + grown


def highest(numbers: Sequence[float], steps: int) -> list[float]:
    """The highest of the last so many numbers, at each of them.

    >>> highest([1, 3, 2, 0, 0], 3)
    [1, 3, 3, 3, 2]
    """
    so_far: list[float] = []
    to_come: list[float] = []
    for begin in range(0, len(numbers), steps):
        block = numbers[begin : begin + steps]
        so_far += peaks(block)
        to_come += peaks(block[::-1])[::-1]
    # A window that begins within a block ends within the next.
    ends = zip(to_come[1:], so_far[steps:], strict=False)
    later = [old if old > new else new for old, new in ends]  # noqa: FURB136 - see `peaks`
    return so_far[:steps] + later


def peaks(numbers: Sequence[float]) -> list[float]:
    """The highest so far, at each number.

    >>> peaks([1, 3, 2])
    [1, 3, 3]
    """
    top = -inf
    # A call of max() takes three times as long.
    return [top := number if number > top else top for number in numbers]  # noqa: FURB136


def path(way: Way, level: Sequence[float], lead: int) -> list[float]:
    """What a way would have said at each step; `level` is the mean of its last minute.

    >>> path(Way(1, trend=True), [0.0] * 12 + [12.0], 3)[-1]
    15.0
    """
    if not way.trend:
        return highest(level, way.steps)
    slope = lead / way.steps
    before = [*list(level[:1]) * way.steps, *level]
    return [
        high + (now - old) * slope if now > old else high
        for high, now, old in zip(highest(level, MINUTE), level, before, strict=False)
    ]


def latest(way: Way, level: Sequence[float], lead: int) -> float:
    """The last of a path.

    >>> latest(Way(1, trend=True), [0.0] * 12 + [12.0], 3)
    15.0
    """
    return path(way, level[-max(way.steps + 1, MINUTE) :], lead)[-1]


def steps_of(lead_s: float) -> int:
    """A time ahead in steps, one or more."""
    return max(1, ceil(lead_s / STEP_S))


def lately(history: History, window_s: int) -> tuple[float, ...]:
    """The needs that count: of the last twelve windows; none where a window is no minute.

    A level is the mean of a minute: it would keep pods for longer than such a window does.
    """
    steps = int(HORIZON * window_s / STEP_S)
    return history.needs[-steps:] if window_s >= MINUTE * STEP_S else ()


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
    if history.turn % EACH:
        return history
    at = history.turn // EACH % len(WAYS)
    known = list(history.judged or [None] * len(WAYS))
    known[at] = judgement(WAYS[at], needs, lead, int(LONG * window_s / STEP_S))
    return replace(history, judged=tuple(known))


def judgement(way: Way, needs: Sequence[float], lead: int, long: int) -> Judged:
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
    pods = [need if (need := word + reserve) > 1.0 else 1.0 for word in said]
    whole = list(map(ceil, pods))
    starts = sum(new - old for old, new in pairwise(whole) if new > old)
    mean = sum(pods) / len(pods)
    return Judged(reserve=reserve, cost=mean * (1 + PRICE * missed) + starts * lead / len(pods))


def without_worst(
    said: Sequence[float], came: Sequence[float], lead: int
) -> tuple[Sequence[float], Sequence[float]]:
    """What was said and what came, without the time around the worst surprise.

    What happened once is no pattern, and nobody keeps pods for an hour for it. What recurs stays.

    >>> without_worst([1, 1, 1, 1, 1], [1, 1, 9, 3, 1], 1)
    ([1, 1], [1, 1])
    """
    errors = list(map(sub, came, said))
    worst = errors.index(max(errors))
    begin, end = max(0, worst - lead), worst + lead + 1
    return [*said[:begin], *said[end:]], [*came[:begin], *came[end:]]


def surprises(said: Sequence[float], came: Sequence[float]) -> list[tuple[float, float]]:
    """By how much more came than was said, and how much came; the smallest first.

    >>> surprises([4, 4], [6, 3])
    [(-1, 3), (2, 6)]
    """
    return sorted(zip(map(sub, came, said), came, strict=True))


def quantile_of(said: Sequence[float], came: Sequence[float]) -> float:
    """Pods on top of what was said that would have carried `CARRIED` of the work that came.

    >>> quantile_of([4] * 10, [4] * 7 + [6] * 3)
    2
    """
    work = sum(came)
    if not work:
        return 0.0
    ordered = surprises(said, came)
    done = list(accumulate([need for _, need in ordered]))
    return ordered[bisect_left(done, CARRIED * work)][0]


def reserve_of(said: Sequence[float], came: Sequence[float], least: float) -> tuple[float, float]:
    """Pods on top of what was said, and the share of the work that they still would have missed.

    From `least` on, a pod more is kept while it carries a share of the work that is worth, at
    `PRICE`, its share of the cost:

    >>> reserve_of([4] * 10, [4] * 5 + [5] * 5, 0.0)[0]
    1
    >>> reserve_of([4] * 100, [4] * 99 + [5], 0.0)[0]
    0.0
    """
    work = sum(came)
    if not work:
        return least, 0.0
    # Sorting what is carried anyway would take three times as long.
    beyond = sorted([one for one in zip(map(sub, came, said), came, strict=True) if one[0] > least])
    scale = PRICE * max(1.0, sum(said) / len(said) + least)
    carried = work - sum([need for _, need in beyond])
    best = least, 1 - carried / work
    cost = least + scale * best[1]
    for error, need in beyond:
        carried += need
        missed = 1 - carried / work
        if error + scale * missed < cost:
            best, cost = (error, missed), error + scale * missed
    return best


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
