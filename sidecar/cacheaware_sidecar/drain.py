"""When a pod is empty: the rule of the final drain, without a clock.

Running and waiting have been 0 for five seconds on end, seen on good pages that show every engine
rank, and the floor has passed: until then a load balancer may still send new requests. A page
that is missing is not empty.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.lifecycle import Lifecycle
from cacheaware_sidecar.phase import Phase

QUIET_S = 5.0
FRESH_S = 3.0
"""A page older than this says nothing about now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """Since when the pages have been saying that nothing runs or waits."""

    since: float | None = None
    seen: float | None = None
    """When the last page of the quiet time was read."""
    ranks: int = 0
    """The most engine ranks that one page has shown."""


class Outcome(StrEnum):
    """How a wait for emptiness stands."""

    WAITING = "waiting"
    DONE = "done"
    DEADLINE = "deadline"


def observe(quiet: Quiet, sample: EngineSample | None, now: float) -> Quiet:
    """Takes one more look into account; None is a look that failed."""
    if sample is None:
        return replace(quiet, since=None, seen=None)
    ranks = max(quiet.ranks, sample.engines or 0)
    complete = (sample.engines or 0) >= ranks
    if not (complete and sample.running == 0 and sample.waiting == 0):
        return Quiet(ranks=ranks)
    return Quiet(since=now if quiet.since is None else quiet.since, seen=now, ranks=ranks)


def is_quiet(quiet: Quiet, now: float) -> bool:
    """Whether nothing has run or waited for five seconds, up to now."""
    if quiet.since is None or quiet.seen is None:
        return False
    return quiet.seen - quiet.since >= QUIET_S and now - quiet.seen <= FRESH_S


def outcome(state: Lifecycle, *, deadline: float, now: float) -> Outcome:
    """How the wait of one hook stands: each has its own deadline, all share the drain.

    Done: the pod is drained, or a new engine has taken the place of the one to be waited for.
    """
    if state.drain is None or state.phase is Phase.DRAINED:
        return Outcome.DONE
    return Outcome.DEADLINE if now >= deadline else Outcome.WAITING


def is_empty(state: Lifecycle, quiet: Quiet, *, floor_s: float, now: float) -> bool:
    """Whether the final drain has emptied the pod."""
    if state.drain is None:
        return False
    return now >= state.drain.began + floor_s and is_quiet(quiet, now)
