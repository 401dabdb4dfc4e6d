"""After a shrink: did the pods go that were chosen? Pure; the round reports the outcome."""

from collections.abc import Sequence
from dataclasses import dataclass

from cacheaware.pods import PodRecord

GIVE_UP_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenShrink:
    """A shrink that was written."""

    at: float
    before: frozenset[str]
    """Uids of the pods there were."""
    victims: frozenset[str]
    """Uids of those chosen."""
    names: tuple[tuple[str, str], ...]
    """(uid, name) of all, for people."""


@dataclass(frozen=True, slots=True)
class ShrinkOutcome:
    """What became of a shrink."""

    wrong: tuple[str, ...]
    """Names of pods that went and were not chosen."""
    spared: tuple[str, ...]
    """Names of pods that were chosen and stayed."""


def shrink_of(records: Sequence[PodRecord], victims: Sequence[str], now: float) -> WrittenShrink:
    """Remember a shrink at the moment it is written; `victims` are uids."""
    there = [record for record in records if not record.terminating]
    return WrittenShrink(
        at=now,
        before=frozenset(record.uid for record in there),
        victims=frozenset(victims),
        names=tuple((record.uid, record.name) for record in there),
    )


def outcome_of(
    shrink: WrittenShrink, records: Sequence[PodRecord], now: float
) -> ShrinkOutcome | None:
    """Compare the pods that went with the victims; None while the shrink is not done."""
    staying = frozenset(record.uid for record in records if not record.terminating)
    gone = shrink.before - staying
    if len(gone) < len(shrink.victims) and now - shrink.at < GIVE_UP_SECONDS:
        return None
    name = dict(shrink.names)
    wrong = sorted(name[uid] for uid in gone - shrink.victims)
    spared = sorted(name[uid] for uid in shrink.victims - gone)
    return ShrinkOutcome(tuple(wrong), tuple(spared))
