"""What a decision needs to know of the rounds before: a small value, made new by each round."""

from dataclasses import dataclass, replace

from cacheaware.decide.windows import Entry, lows_with, peaks_with


@dataclass(frozen=True, slots=True)
class Change:
    """Replicas written by us."""

    at: float
    before: int
    after: int


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
    silent_from: int | None = None
    """Replicas when most pods fell silent above target."""

    @classmethod
    def start(cls, replicas: int, now: float) -> "Memory":
        """A memory whose windows are full of the current replicas: a restart shrinks nothing."""
        full = (Entry(now, replicas),)
        return cls(replicas=replicas, last_round=now, peaks=full, lows=full)

    def scaled(self, before: int, after: int, now: float) -> "Memory":
        """The memory after a successful write of `after` replicas."""
        return replace(
            self,
            replicas=after,
            changes=(*self.changes, Change(now, before, after)),
            peaks=peaks_with(self.peaks, Entry(now, after)),
            lows=lows_with(self.lows, Entry(now, after)),
        )
