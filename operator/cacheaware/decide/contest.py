"""Another writer that sets the replicas back each time: a GitOps tool, a parent operator.

One change by somebody else is a new base (`Memory.seen`). Three times within five minutes by the
same field manager, each after a write of ours, is a contest: then we write after 1, 2, 4 ...
minutes only, and say who it is and what to change. It is over once a write of ours has lasted.
"""

from msgspec import Struct
from msgspec.structs import replace

from cacheaware.decide.circumstances import Contested
from cacheaware.decide.pauses import doubled

REVERSALS = 3
WITHIN_SECONDS = 300.0
FIRST_SECONDS = 60.0
LONGEST_SECONDS = 1920.0
FORGOTTEN_SECONDS = 3600.0


class Written(Struct, frozen=True):
    """A write of ours that nobody has changed yet."""

    at: float
    replicas: int


class Reversal(Struct, frozen=True):
    """A write of ours that somebody changed."""

    at: float
    manager: str


class Contest(Struct, frozen=True, kw_only=True):
    """What is remembered of our writes and of those who change them."""

    written: Written | None = None
    reversals: tuple[Reversal, ...] = ()
    """Of the last five minutes, oldest first."""
    manager: str = ""
    """Whom the contest is with, once there is one."""
    times: int = 0
    """Pauses so far; 0: no contest."""
    until: float = 0.0
    """So long nothing is written."""

    def wrote(self, replicas: int, now: float) -> "Contest":
        """After a write of ours."""
        return replace(self, written=Written(now, replicas))

    def seen(self, replicas: int, manager: str, now: float) -> "Contest":
        """After a look at the target.

        Args:
            replicas: what it asks for.
            manager: the field manager that last set them; empty where that is not known.
            now: this round's time.
        """
        written = self.written
        if written is not None and written.replicas != replicas:
            return self.reversed_by(manager, now)
        if not self.times:
            return self
        lasted = written is not None and now - written.at >= max(WITHIN_SECONDS, self.pause_s)
        return Contest() if lasted or now - self.until >= FORGOTTEN_SECONDS else self

    def reversed_by(self, manager: str, now: float) -> "Contest":
        """After somebody changed what we wrote."""
        lately = tuple(one for one in self.reversals if one.at > now - WITHIN_SECONDS)
        after = replace(self, written=None, reversals=(*lately, Reversal(now, manager)))
        again = bool(self.times) and manager == self.manager
        count = sum(one.manager == manager for one in after.reversals)
        if not again and count < REVERSALS:
            return after
        after = replace(after, manager=manager, times=self.times + 1 if again else 1)
        return replace(after, until=now + after.pause_s)

    @property
    def pause_s(self) -> float:
        """How long nothing is written after so many reversals.

        >>> [Contest(times=times).pause_s / 60 for times in (1, 2, 3, 9)]
        [1.0, 2.0, 4.0, 32.0]
        """
        return doubled(FIRST_SECONDS, self.times, LONGEST_SECONDS)

    def told(self, now: float) -> Contested | None:
        """The contest as a decision sees it; None while there is none."""
        return Contested(self.manager, max(0.0, self.until - now)) if self.times else None
