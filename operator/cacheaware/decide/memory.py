"""What a decision needs to know of the rounds before: a small value, made new by each round."""

from dataclasses import dataclass, replace
from typing import TypeVar

from cacheaware.decide.windows import Entry, lows_with, peaks_with, within

T = TypeVar("T")

LONGEST_PERIOD_SECONDS = 1800
"""The longest period of a rate policy that the schema allows."""
SPENT = -1
EMPTY: frozenset[str] = frozenset()
PATIENCE_SECONDS = 60.0
"""A pause between rounds that is longer than this, and than three rounds, is a restart."""


@dataclass(frozen=True, slots=True)
class Change:
    """Replicas written by us."""

    at: float
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A pod that would not empty, and is left alone for a while."""

    uid: str
    until: float
    why: str
    """A reason: StickyClients or DrainTimedOut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The rounds before, as far as they matter. Keep one per CacheAwareScaler and target."""

    replicas: int
    """What the target asked for when last seen or written: another number is another's doing."""
    last_round: float
    peaks: tuple[Entry, ...]
    """Recommendations that may still be the highest of a window."""
    lows: tuple[Entry, ...]
    """Recommendations that may still be the lowest of a window."""
    changes: tuple[Change, ...] = ()
    """What we wrote lately, oldest first."""
    unknown_since: float | None = None
    """Since when nothing was known of any serving pod."""
    missing_since: float | None = None
    """Since when there were fewer pods than ordered."""
    leaving_since: float | None = None
    """Since when there were terminating pods."""
    cordons: frozenset[str] = frozenset()
    """Uids of the pods that were given up and are not gone: out of the endpoints until empty."""
    bars: tuple[Bar, ...] = ()
    """Pods that may not be cordoned for now."""
    silent_from: int | None = None
    """Replicas when most pods fell silent above target; `SPENT` once the step up was made."""

    @classmethod
    def start(cls, replicas: int, now: float) -> "Memory":
        """A memory whose windows are full of the current replicas: a restart shrinks nothing."""
        full = (Entry(now, replicas),)
        return cls(replicas=replicas, last_round=now, peaks=full, lows=full)

    @property
    def current(self) -> int:
        """Replicas less the pods that are given up."""
        return self.replicas - len(self.cordons)

    def scaled(self, before: int, after: int, now: float, gone: frozenset[str] = EMPTY) -> "Memory":
        """The memory after a successful write of `after` replicas.

        `gone` are the uids of its victims: those that had been cordoned were counted as a change
        of replicas when they were cordoned.
        """
        counted = before - len(gone & self.cordons)
        return replace(
            self.changed(counted, after, now),
            replicas=after,
            cordons=self.cordons - gone,
            peaks=peaks_with(self.peaks, Entry(now, after)) if after > before else self.peaks,
            silent_from=None if self.silent_from is None else SPENT,
        )

    def changed(self, before: int, after: int, now: float) -> "Memory":
        """The memory with a change of replicas for the rates."""
        if before == after:
            return self
        lately = [one for one in self.changes if one.at > now - LONGEST_PERIOD_SECONDS]
        return replace(self, changes=(*lately, Change(now, before, after)))

    def cordoning(self, cordons: frozenset[str], now: float) -> "Memory":
        """The memory with these pods given up and no others: for the rates a change of replicas."""
        after = self.replicas - len(cordons)
        return replace(self.changed(self.current, after, now), cordons=cordons)

    def barring(self, bars: tuple[Bar, ...], now: float) -> "Memory":
        """The memory with more pods barred; bars that are over are forgotten."""
        return replace(self, bars=tuple(one for one in self.bars + bars if one.until > now))

    def barred(self, uid: str) -> str | None:
        """Why a pod may not be cordoned now."""
        return next((one.why for one in self.bars if one.uid == uid), None)

    def seen(self, replicas: int, now: float, round_s: float) -> "Memory":
        """The memory at the beginning of a round.

        Replicas that somebody else changed are a new base: windows start full of them. So do they
        after a pause in which nothing was watched.
        """
        if replicas != self.replicas:
            return replace(
                self.start(replicas, now),
                unknown_since=self.unknown_since,
                silent_from=self.silent_from,
                bars=self.bars,
            )
        if 0 <= now - self.last_round <= max(PATIENCE_SECONDS, 3 * round_s):
            return replace(self, last_round=now)
        return replace(self.recommended(replicas, now), last_round=now)

    def marked(
        self, now: float, *, unknown: bool, missing: bool, leaving: bool, silent: bool
    ) -> "Memory":
        """The memory with what holds in this round; a mark stays as it was while it holds."""
        return replace(
            self,
            unknown_since=since(self.unknown_since, now, holds=unknown),
            missing_since=since(self.missing_since, now, holds=missing),
            leaving_since=since(self.leaving_since, now, holds=leaving),
            silent_from=since(self.silent_from, self.current, holds=silent),
        )

    def recommended(self, replicas: int, now: float) -> "Memory":
        """The memory with a recommendation in its windows."""
        entry = Entry(now, replicas)
        return replace(self, peaks=peaks_with(self.peaks, entry), lows=lows_with(self.lows, entry))

    def lowest(self, seconds: float, now: float) -> list[int]:
        """Low recommendations of a window."""
        return [entry.replicas for entry in within(self.lows, seconds, now)]

    def highest(self, seconds: float, now: float) -> list[int]:
        """High recommendations of a window."""
        return [entry.replicas for entry in within(self.peaks, seconds, now)]

    def left_for(self, now: float) -> float:
        """Seconds since pods began to leave, or since we last sent some."""
        began = [one.at for one in self.changes if one.after < one.before]
        return now - max([*began, now if self.leaving_since is None else self.leaving_since])


def since(mark: T | None, new: T, *, holds: bool) -> T | None:
    """A mark that is set when something begins to hold, and gone when it no longer does."""
    if not holds:
        return None
    return new if mark is None else mark
