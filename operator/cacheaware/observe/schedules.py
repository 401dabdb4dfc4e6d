"""Schedules: which floors hold at a moment, in the user's time zone.

Local times are those of Debian's cron, as cronsim has them. At a fixed hour a time that the clocks
skip in spring comes right after the gap, and one that they repeat in autumn comes once. With `*` in
the minute or the hour, each minute or hour that passes counts. The length is in seconds that pass,
so that a floor of eight hours lasts for eight hours in such a night, too.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from cacheaware.decide.circumstances import Floor
from cacheaware.decide.cold_start import ENOUGH, Starts, percentile
from cacheaware.decide.policy import Schedule

MINUTE_S = 60
AHEAD_PERCENTILE = 90
UNLEARNED_S = 300.0
"""So long before its time a floor begins until enough starts were seen."""


class ScheduleError(Exception):
    """A schedule can't be used; one line that names the field and the value."""


def check(schedules: Iterable[Schedule]) -> None:
    """See that all schedules can be read.

    Raises:
        ScheduleError: of the first that can't.
    """
    for place, one in enumerate(schedules):
        where = f"spec.schedules[{place}]"
        zone_of(one, where)
        try:
            first = next(times(one, 0.0), None)
        except (CronSimError, AssertionError) as error:
            said = f" ({str(error).lower()})" if str(error) else ""
            raise ScheduleError(
                f"{where}.cron {one.cron!r} can't be read{said}: {FIELDS}"
            ) from None
        if first is None:
            raise ScheduleError(f"{where}.cron {one.cron!r} names a day that never comes")


FIELDS = "give minute, hour, day of the month, month and day of the week, such as 0 8 * * 1-5"


def zone_of(schedule: Schedule, where: str) -> ZoneInfo:
    """The time zone.

    Raises:
        ScheduleError: there is none of that name.
    """
    try:
        return ZoneInfo(schedule.time_zone)
    except (KeyError, ValueError, OSError):
        told = f"{where}.timeZone {schedule.time_zone!r} is not known: give an IANA name"
        raise ScheduleError(f"{told}, such as Europe/Berlin") from None


def times(schedule: Schedule, after: float) -> Iterator[float]:
    """The times that a schedule names after a moment; seconds since the epoch."""
    zone = ZoneInfo(schedule.time_zone)
    began = datetime.fromtimestamp(after, UTC).astimezone(zone)
    return (at.timestamp() for at in CronSim(schedule.cron, began))


@lru_cache(maxsize=4096)
def next_after(schedule: Schedule, minute: int) -> float | None:
    """The first time after a minute: times are whole minutes, so it is looked for once in each.

    On the day that an hour comes twice, cron's next time may lie before the moment asked about.
    """
    after = float(minute * MINUTE_S)
    return next((at for at in times(schedule, after) if at > after), None)


def ahead_s(starts: Starts) -> float:
    """How long before its time a floor begins: the cold start that nine of ten pods keep."""
    known = percentile([one.total for one in starts], AHEAD_PERCENTILE)
    return UNLEARNED_S if known is None or len(starts) < ENOUGH else known


def floor_of(schedules: Iterable[Schedule], starts: Starts, wall: float) -> Floor | None:
    """The highest floor that holds; None while none does.

    Args:
        schedules: that were checked.
        starts: what the workload's starts have taught.
        wall: seconds since the epoch.
    """
    ahead = ahead_s(starts)
    held = [held_by(one, ahead, wall) for one in schedules]
    floors = [one for one in held if one is not None]
    return max(floors, key=lambda one: (one.replicas, -one.begins_s), default=None)


def held_by(schedule: Schedule, ahead_s: float, wall: float) -> Floor | None:
    """A schedule's floor, from `ahead_s` before its time until its end."""
    begins = next_after(schedule, int((wall - schedule.duration_seconds) // MINUTE_S))
    if begins is None or begins - ahead_s > wall:
        return None
    told = f"{schedule.cron!r} ({schedule.time_zone})"
    return Floor(schedule.min_replicas, told, max(0.0, begins - wall))
