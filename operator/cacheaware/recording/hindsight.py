"""What a time would have cost with hindsight: the cheapest replicas that cover the need."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from cacheaware.decide.regret import SOON_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A round as far as its cost goes."""

    at_s: float
    seconds: float
    """How long it stood for."""
    replicas: int
    """That were asked for."""
    serving: int
    need: int | None
    """Replicas that the load needed; None where that was not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """What was ordered beside what would have done. Replica-seconds, and seconds."""

    cold_start_s: float
    seconds: float = 0.0
    recorded: float = 0.0
    hindsight: float = 0.0
    over: float = 0.0
    """Ordered beyond what hindsight would have."""
    short_s: float = 0.0
    """Fewer pods served than were needed, within the bounds."""
    beyond_s: float = 0.0
    """More were needed than the most that is allowed."""
    unknown_s: float = 0.0
    """The need was not known; hindsight orders there what was ordered."""
    shrinks: int = 0
    regretted: int = 0
    """Shrinks that were undone, at least in part, within ten minutes."""
    schedule: tuple[int, ...] = field(default=(), repr=False)
    """The replicas that hindsight orders in each round."""

    @property
    def percent(self) -> float | None:
        """How much more than with hindsight was ordered; None where that is nothing."""
        return 100 * (self.recorded / self.hindsight - 1) if self.hindsight else None


def covering(times: Sequence[float], need: Sequence[int], ahead: float) -> list[int]:
    """Replicas to ask for at each time: the most that is needed then or within `ahead` after.

    That is the optimum of serving time + starts where a start costs `ahead` of a pod. It decomposes
    by level: pod k serves when the need is k or more, and between two such times goes unless the
    gap is shorter than its start, for a pod that serves costs no more then than one that starts
    anew. Both are what looking ahead by a start gives.

    Args:
        times: rising; any unit.
        need: pods that must serve at each time, until the next.
        ahead: how long a start takes, in the unit of `times`.

    >>> covering(range(7), [1, 1, 1, 3, 1, 1, 2], 2)
    [1, 3, 3, 3, 2, 2, 2]
    """
    ends = (bisect_right(times, at + ahead) for at in times)
    return [max(need[begin:end]) for begin, end in enumerate(ends)]


def regret_of(moments: Sequence[Moment], *, least: int, most: int, cold_start_s: float) -> Regret:
    """The cost of what was ordered beside the cheapest that covers the need.

    Hindsight has no more pods than are allowed, and as many as it likes at the beginning: what
    came before is not known.
    """
    wanted = [needed(one, least, most) for one in moments]
    times = [one.at_s for one in moments]
    schedule = covering(times, wanted, cold_start_s)
    pairs = list(zip(moments, schedule, strict=True))
    known = [one for one in moments if one.need is not None]
    shrinks = shrinks_of(moments)
    return Regret(
        cold_start_s=cold_start_s,
        seconds=sum(one.seconds for one in moments),
        recorded=sum(one.seconds * one.replicas for one in moments),
        hindsight=sum(one.seconds * planned for one, planned in pairs),
        over=sum(one.seconds * max(0, one.replicas - planned) for one, planned in pairs),
        short_s=sum(one.seconds for one in known if one.serving < needed(one, least, most)),
        beyond_s=sum(one.seconds for one in known if (one.need or 0) > most),
        unknown_s=sum(one.seconds for one in moments if one.need is None),
        shrinks=len(shrinks),
        regretted=sum(is_regrown(moments, times, at) for at in shrinks),
        schedule=tuple(schedule),
    )


def needed(moment: Moment, least: int, most: int) -> int:
    """The need within the bounds; where it is not known, what was ordered."""
    return moment.replicas if moment.need is None else max(least, min(most, moment.need))


def shrinks_of(moments: Sequence[Moment]) -> list[int]:
    """The places at which fewer replicas were asked for than just before."""
    return [at for at in range(1, len(moments)) if moments[at].replicas < moments[at - 1].replicas]


def is_regrown(moments: Sequence[Moment], times: Sequence[float], at: int) -> bool:
    """Whether a shrink was followed by a growth too soon."""
    end = bisect_left(times, times[at] + SOON_S)
    return any(one.replicas > moments[at].replicas for one in moments[at:end])
