"""A target as it was read a moment ago, and how long that is good enough to look by.

Whoever changes a target's replicas changes its pods, and those are watched. So a target whose pods
are as they were is not read in each round, which costs as much as all else that the API is asked.
Nothing is done on what was kept: before a round acts it reads the target, and decides by that.
"""

from collections.abc import Sequence
from operator import is_

from msgspec import Struct

from cacheaware.decide.decision import Decision
from cacheaware.observe.target import Target
from cacheaware.pods import PodRecord

ROUNDS = 12
"""A target is looked at for so many rounds as it was read."""


class Kept(Struct, frozen=True):
    """A target and its pods when it was read."""

    target: Target
    at: float
    records: Sequence[PodRecord]

    def holds(self, records: Sequence[PodRecord], now: float, round_s: float) -> bool:
        """Whether it is young, there is nothing to wait for in it, and no pod has changed since.

        Args:
            records: The target's pods now: what a watch tells of a pod makes a new record of it.
            now: This round's time.
            round_s: Seconds from round to round.
        """
        target = self.target
        if not target.spec_replicas or target.rollout or target.problem:
            return False
        if now - self.at >= ROUNDS * round_s or len(records) != len(self.records):
            return False
        return all(map(is_, records, self.records))


def acts(decision: Decision) -> bool:
    """Whether a decision asks for anything to be done."""
    return decision.changes or bool(decision.cordons or decision.uncordons or decision.victims)
