"""What a fleet has needed lately, step by step of five seconds, over the last hour.

A need is a number of pods at target: the larger of the KV cache in use over what a pod may use, and
of the prefill that came over what a pod may do. It is of the demand alone: how many pods there were
does not change it, and where they differ in size it counts in pods of one size, that which the mean
pod had when the history began.
"""

from array import array

from msgspec import Struct, field
from msgspec.structs import replace

STEP_S = 5.0
CLOSE_S = 0.9 * STEP_S
"""A step may end a little early: rounds are not exact."""
KEPT = 720
"""Steps of an hour."""
MINUTE = 12
"""Steps of a minute."""


class Moment(Struct, frozen=True, kw_only=True):
    """What one round has seen."""

    kv: float
    """Pods that the KV cache in use and the requests that newly wait would fill to target."""
    work: float | None
    """Pod-seconds of prefill, at target, that came since the round before; None: not known."""
    waiting: float | None = None
    """Requests that wait; None: not known."""
    pod: int | None = None
    """Billionths of a token that a pod of the needs holds; None where tokens are not known."""
    coming: bool = False
    """Whether pods are on their way: a queue is there until they serve, and is no news."""


class Judged(Struct, frozen=True, kw_only=True):
    """How a way to forecast would have done over the history."""

    reserve: float
    """Pods on top of it that would have carried most of the work that came."""
    cost: float
    """Mean replicas with that reserve, starts counted in."""


class History(Struct, frozen=True, kw_only=True):
    """The steps before, oldest first, and the one that is under way."""

    needs: "array[float]" = field(default_factory=lambda: array("d"))
    """Pods of each step; an array takes a quarter of a tuple's memory."""
    prefills: tuple[float, ...] = ()
    """Pods at target that the prefill of each step of the last minute would have kept busy; empty
    where prefill is not known.
    """
    queues: tuple[float, ...] = ()
    """The fewest requests that waited, in each step of the last minute; 0 while pods were on their
    way.
    """
    waiting: float | None = None
    """Requests that waited in the round before."""
    pod: int | None = None
    began: float | None = None
    """When the present step began."""
    work: float | None = None
    kv: float = 0.0
    queue: float = float("inf")
    judged: tuple[Judged | None, ...] = ()
    """One for each way to forecast."""
    turn: int = 0
    """Steps since the beginning: whose turn it is to be judged."""

    @property
    def need(self) -> float | None:
        """Pods of the last step; None before one is over."""
        return self.needs[-1] if self.needs else None

    @property
    def prefill(self) -> float | None:
        """Pods at target that the prefill of the last minute kept busy; None: not known."""
        return sum(self.prefills) / len(self.prefills) if self.prefills else None

    @property
    def lasting_queue(self) -> float | None:
        """Requests that have waited all through the last minute, though no pod was on its way.

        None before a step is over.
        """
        return min(self.queues, default=None)


def noted(history: History, seen: Moment, now: float) -> History:
    """The history with one round more.

    What came in the first round came before the history began, and is not counted.
    """
    if (began := history.began) is None:
        return replace(history, began=now, waiting=seen.waiting, pod=seen.pod)
    if seen.work is not None:
        history = replace(history, work=(history.work or 0.0) + seen.work)
    history = replace(
        history,
        kv=max(history.kv, seen.kv),
        queue=0.0 if seen.coming else min(history.queue, seen.waiting or 0.0),
        waiting=seen.waiting,
        pod=history.pod or seen.pod,
    )
    seconds = now - began
    return history if seconds < CLOSE_S else closed(history, seconds, now)


def closed(history: History, seconds: float, now: float) -> History:
    """The history when its step has taken so many seconds; a long one counts as several.

    Prefill that is not known goes on as in the minute before, for a minute.
    """
    times = max(1, round(seconds / STEP_S))
    if history.work is None:
        prefill, prefills = history.prefill, history.prefills[times:]
    else:
        prefill = history.work / seconds
        prefills = (*history.prefills, *([prefill] * times))[-MINUTE:]
    need = max(history.kv, prefill or 0.0)
    return replace(
        history,
        needs=(history.needs + array("d", [need] * times))[-KEPT:],
        prefills=prefills,
        queues=(*history.queues, *([history.queue] * times))[-MINUTE:],
        began=now,
        work=None,
        kv=0.0,
        queue=float("inf"),
        turn=history.turn + 1,
    )
