"""How long a pod that is being deleted really has: what its sidecar can't know.

The template's grace period is what a pod has as a rule; an eviction or `kubectl delete
--grace-period` may give it less. When it ends stands in its object, in the API's time. Our clock
may differ from that, and a deadline that is told too short costs requests, so the clock only
chooses within what we have seen ourselves: the pod was alive in one round and going in a later one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cacheaware.act.outcome import Outcome
from cacheaware.pods import PodRecord

PAUSE_SECONDS = 20.0
"""So long a sidecar that did not take it is left alone."""
NOT_YET = 409
"""The answer where its final drain has not begun: it will in a moment."""


@dataclass(slots=True)
class Going:
    """What rounds have seen of a scaler's pods on their way out, by uid; monotonic seconds."""

    alive: dict[str, float] = field(default_factory=dict)
    """When a pod was last seen alive."""
    noticed: dict[str, float] = field(default_factory=dict)
    """When it was first seen being deleted; only pods that were seen alive before."""
    told: dict[str, float] = field(default_factory=dict)
    """What a pod knows: the end of its grace period, which may be moved."""
    paused: dict[str, float] = field(default_factory=dict)
    """Until when it is left alone."""

    def see(self, records: Iterable[PodRecord], now: float) -> None:
        """Take in a round's pods; those that are gone are forgotten."""
        there = {one.uid: one for one in records}
        for known in (self.alive, self.noticed, self.told, self.paused):
            for uid in known.keys() - there.keys():
                del known[uid]
        for uid, one in there.items():
            if not one.terminating:
                self.alive[uid] = now
            elif uid in self.alive:
                self.noticed.setdefault(uid, now)

    def due(self, records: Iterable[PodRecord], now: float) -> list[PodRecord]:
        """The pods that are to be told."""
        return [
            one
            for one in records
            if one.uid in self.noticed
            and one.sidecar_port is not None
            and one.ip
            and None not in {one.deleted_at, one.grace_s}
            and self.told.get(one.uid) != one.deleted_at
            and now >= self.paused.get(one.uid, now)
        ]

    def left(self, record: PodRecord, now: float, wall: float) -> float:
        """Seconds until a pod is killed; of a pod that is due.

        Args:
            record: the pod.
            now: monotonic seconds.
            wall: seconds since the epoch, by our clock.
        """
        grace = record.grace_s or 0.0
        least = grace - (now - self.alive[record.uid])
        most = grace - (now - self.noticed[record.uid])
        return max(0.0, min(most, max(least, (record.deleted_at or 0.0) - wall)))

    def note(self, record: PodRecord, outcome: Outcome, now: float) -> None:
        """Remember what became of telling it."""
        if outcome.accepted:
            self.told[record.uid] = record.deleted_at or 0.0
        elif outcome.status != NOT_YET:
            self.paused[record.uid] = now + PAUSE_SECONDS
