"""What a decision needs to know of the rounds before: a small value, made new by each round."""

from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from cacheaware.decide.history import History
from cacheaware.decide.windows import Entry, lows_with, peaks_with, within

T = TypeVar("T")

LONGEST_PERIOD_SECONDS = 1800
"""The longest period of a rate policy that the schema allows."""
SPENT = -1
EMPTY: frozenset[str] = frozenset()
FAILED_SECONDS = 600.0
"""After ten minutes without a fault the kubelet forgets a container's back-off, and so do we that
its start failed: between two crashes a container runs, and looks well.
"""
PATIENCE_SECONDS = 60.0
"""A pause between rounds that is longer than this, and than three rounds, is a restart."""


class Change(Struct, frozen=True):
    """A change of replicas by us."""

    at: float
    before: int
    after: int


class Since(Struct, frozen=True, order=True):
    """A pod of which something holds, and since when, or when it was last so."""

    uid: str
    at: float


class Bar(Struct, frozen=True):
    """A pod that would not empty, and is left alone for a while."""

    uid: str
    until: float
    why: str
    """A reason: StickyClients or DrainTimedOut."""


class Memory(Struct, frozen=True, kw_only=True):
    """The rounds before, as far as they matter. Keep one per CacheAwareScaler and target."""

    replicas: int
    """What the target asked for when last seen or written: another number is another's doing."""
    last_round: float
    peaks: tuple[Entry, ...]
    """Recommendations that may still be the highest of a window."""
    lows: tuple[Entry, ...]
    """Recommendations that may still be the lowest of a window."""
    changes: tuple[Change, ...] = ()
    """Of the replicas that are not given up, oldest first: what shrinking is measured by. A cordon
    takes one, an uncordon gives it back.
    """
    orders: tuple[Change, ...] = ()
    """Of the replicas that the target asks for, oldest first: what growing is measured by."""
    unknown_since: float | None = None
    """Since when nothing was known of any serving pod."""
    missing_since: float | None = None
    """Since when there were fewer pods than ordered."""
    leaving_since: float | None = None
    """Since when there were terminating pods."""
    given_up: tuple[Since, ...] = ()
    """The pods that were given up and are not gone, since their cordons: out of the endpoints until
    empty. What is asked for counts at once, and no more when the next look shows that it failed.
    """
    bars: tuple[Bar, ...] = ()
    """Pods that may not be cordoned for now."""
    failed: tuple[Since, ...] = ()
    """Ordered pods that could not start, when last seen so; until they serve."""
    history: History = field(default_factory=History)
    """What was needed: of the demand alone, so it outlives changes of replicas."""
    silent_from: int | None = None
    """Replicas when most pods fell silent above target; `SPENT` once the step up was made."""

    @classmethod
    def start(cls, replicas: int, now: float) -> "Memory":
        """A memory whose windows are full of the current replicas: a restart shrinks nothing."""
        full = (Entry(now, replicas),)
        return cls(replicas=replicas, last_round=now, peaks=full, lows=full)

    @property
    def cordons(self) -> frozenset[str]:
        """Uids of the pods that are given up."""
        return frozenset(one.uid for one in self.given_up)

    @property
    def current(self) -> int:
        """Replicas less the pods that are given up."""
        return self.replicas - len(self.given_up)

    def scaled(self, before: int, after: int, now: float, gone: frozenset[str] = EMPTY) -> "Memory":
        """The memory after a successful write of `after` replicas.

        `gone` are the uids of its victims: those that had been cordoned were counted as a change
        of replicas when they were cordoned. A write that failed needs no call: what is still
        cordoned and empty in the next round goes then.
        """
        counted = before - len(gone & self.cordons)
        return replace(
            self,
            replicas=after,
            changes=changed(self.changes, Change(now, counted, after)),
            orders=changed(self.orders, Change(now, before, after)),
            given_up=tuple(one for one in self.given_up if one.uid not in gone),
            peaks=peaks_with(self.peaks, Entry(now, after)) if after > before else self.peaks,
            silent_from=None if self.silent_from is None else SPENT,
        )

    def cordoning(self, cordons: frozenset[str], now: float) -> "Memory":
        """The memory with these pods given up and no others: for the rates a change of replicas."""
        if cordons == self.cordons:
            return self
        before = {one.uid: one for one in self.given_up}
        after = self.replicas - len(cordons)
        return replace(
            self,
            changes=changed(self.changes, Change(now, self.current, after)),
            given_up=tuple(sorted(before.get(uid, Since(uid, now)) for uid in cordons)),
        )

    def cordoned_seconds(self, now: float) -> dict[str, float]:
        """Seconds since pods were given up, by their uids."""
        return {one.uid: now - one.at for one in self.given_up}

    def grown_within(self, seconds: float, now: float) -> bool:
        """Whether pods were ordered or brought back lately."""
        return any(one.after > one.before and one.at > now - seconds for one in self.changes)

    def failing(self, stuck: frozenset[str], starting: frozenset[str], now: float) -> "Memory":
        """The memory with the ordered pods that can't start now; others that still start keep it.

        Args:
            stuck: uids of those whose containers wait after a fault.
            starting: uids of all that have not served.
            now: this round's time.
        """
        if not stuck and not self.failed:
            return self
        kept = {one.uid: one for one in self.failed if one.at > now - FAILED_SECONDS}
        kept |= {uid: Since(uid, now) for uid in stuck}
        return replace(self, failed=tuple(sorted(kept[uid] for uid in kept.keys() & starting)))

    def barring(self, bars: tuple[Bar, ...], now: float) -> "Memory":
        """The memory with more pods barred; bars that are over are forgotten."""
        if not self.bars and not bars:
            return self
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
                failed=self.failed,
                history=self.history,
            )
        if 0 <= now - self.last_round <= max(PATIENCE_SECONDS, 3 * round_s):
            return replace(self, last_round=now)
        return replace(self.recommended(replicas, now), last_round=now, history=History())

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
        began = [one.at for one in self.orders if one.after < one.before]
        return now - max([*began, now if self.leaving_since is None else self.leaving_since])


def changed(changes: tuple[Change, ...], new: Change) -> tuple[Change, ...]:
    """Changes with a newer one; those that no rate policy can ask for are forgotten."""
    if new.before == new.after:
        return changes
    return (*(one for one in changes if one.at > new.at - LONGEST_PERIOD_SECONDS), new)


def since(mark: T | None, new: T, *, holds: bool) -> T | None:
    """A mark that is set when something begins to hold, and gone when it no longer does."""
    if not holds:
        return None
    return new if mark is None else mark
