"""Carrying out what a decision says of cordons, and remembering which pods refuse them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cacheaware.act.control import Control
from cacheaware.act.deadlines import Going
from cacheaware.act.outcome import Outcome
from cacheaware.decide.decision import Decision, Victim
from cacheaware.pods import PodRecord

RENEW_SECONDS = 20.0
"""A third of the lease: two renewals may fail before a pod comes back by itself."""
SURE_SECONDS = 45.0
"""So long after its last renewal a cordon surely lasts until a write has ended."""
REFUSED_SECONDS = 60.0
"""So long a pod that could not be cordoned is not asked again."""


@dataclass(slots=True)
class CordonMemory:
    """What is known of the control calls to a scaler's pods, by uid."""

    renewed: dict[str, float] = field(default_factory=dict)
    """When a pod's cordon was accepted last."""
    begun: dict[str, float] = field(default_factory=dict)
    """When a pod's cordon was accepted first."""
    refused: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Until when a pod is not asked again, and why."""
    going: Going = field(default_factory=Going)

    def obstacles(self, now: float) -> dict[str, str]:
        """Why pods can't be cordoned now."""
        self.refused = {uid: one for uid, one in self.refused.items() if one[0] > now}
        return {uid: why for uid, (_, why) in self.refused.items()}

    def surely_last(self, uids: Iterable[str], now: float) -> bool:
        """Whether none of these cordons may end by itself while a shrink is written."""
        never = float("-inf")
        return all(now - self.renewed.get(uid, never) < SURE_SECONDS for uid in uids)

    def keep(self, uids: set[str]) -> None:
        """Forget the pods that are gone."""
        self.renewed = {uid: at for uid, at in self.renewed.items() if uid in uids}
        self.begun = {uid: at for uid, at in self.begun.items() if uid in uids}

    def ended(self, uids: Iterable[str], now: float) -> tuple[float, ...]:
        """These cordons are over; how long those lasted whose beginning was seen."""
        return tuple(now - self.begun.pop(uid) for uid in uids if uid in self.begun)


@dataclass(frozen=True, slots=True)
class Moved:
    """What became of the cordons of a round; pods by name."""

    cordoned: tuple[str, ...] = ()
    uncordoned: tuple[tuple[str, str], ...] = ()
    """With the reason."""
    refused: tuple[tuple[str, str], ...] = ()
    """With the reason; each told once in a while."""
    lasted: tuple[float, ...] = ()
    """Seconds that the cordons which were taken back had lasted."""


class Cordons:
    """Cordons and uncordons pods as decided, all at once."""

    def __init__(self, control: Control, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._control = control
        self._clock = clock

    async def carry_out(
        self, decision: Decision, records: Mapping[str, PodRecord], by: str, memory: CordonMemory
    ) -> Moved:
        """Uncordons first: load that has returned waits for them."""
        back = await self._each(decision.uncordons, records, self._control.uncordon, by)
        for victim, _ in back:
            memory.renewed.pop(victim.uid, None)
        returned = [one for one, outcome in back if outcome.accepted]
        lasted = memory.ended((one.uid for one in returned), self._clock())
        out = await self._each(self._due(decision, memory), records, self._control.cordon, by)
        fresh = [one for one, outcome in out if outcome.accepted and one.uid not in memory.renewed]
        news = [
            (one.pod, outcome.why)
            for one, outcome in out
            if not outcome.accepted and one.uid not in memory.refused
        ]
        for victim, outcome in out:
            self._note(victim, outcome, memory)
        return Moved(
            cordoned=tuple(one.pod for one in fresh),
            uncordoned=tuple((one.pod, one.reason) for one in returned),
            refused=tuple(news),
            lasted=lasted,
        )

    async def tell_deadlines(
        self, records: Iterable[PodRecord], wall: float, memory: CordonMemory
    ) -> None:
        """Tell pods that are being deleted how long they really have, each till it has heard.

        Args:
            records: the target's pods.
            wall: seconds since the epoch.
            memory: which of them know.
        """
        now = self._clock()
        due = [(one, memory.going.left(one, now, wall)) for one in memory.going.due(records, now)]
        outcomes = await asyncio.gather(*(self._control.deadline(one, left) for one, left in due))
        for (one, _), outcome in zip(due, outcomes, strict=True):
            memory.going.note(one, outcome, now)

    def _due(self, decision: Decision, memory: CordonMemory) -> list[Victim]:
        """Those that are to stay out: the empty ones too, until their end is written."""
        now, never = self._clock(), float("-inf")
        emptied = (one for one in decision.victims if one.cordoned)
        return [
            one
            for one in (*decision.cordons, *emptied)
            if now - memory.renewed.get(one.uid, never) >= RENEW_SECONDS
        ]

    async def _each(
        self,
        victims: Iterable[Victim],
        records: Mapping[str, PodRecord],
        call: Callable[[PodRecord, str], Awaitable[Outcome]],
        by: str,
    ) -> list[tuple[Victim, Outcome]]:
        there = [one for one in victims if one.uid in records]
        outcomes = await asyncio.gather(*(call(records[one.uid], by) for one in there))
        return list(zip(there, outcomes, strict=True))

    def _note(self, victim: Victim, outcome: Outcome, memory: CordonMemory) -> None:
        now = self._clock()
        if outcome.accepted:
            memory.renewed[victim.uid] = now
            memory.begun.setdefault(victim.uid, now)
            memory.refused.pop(victim.uid, None)
        else:
            memory.refused[victim.uid] = (now + REFUSED_SECONDS, outcome.why)
