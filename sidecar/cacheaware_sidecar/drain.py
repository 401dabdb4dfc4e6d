"""When a pod is empty: the rule of the cordon and of the final drain, without a clock.

For five seconds on end, on good pages that show every engine rank: nothing runs or waits, no
counter of requests or tokens moves, and nothing lies unsent or unread in the engine's connections.
In a final drain the floor has passed as well: until then a load balancer may still send new
requests. Prefill and decode pods also hold no KV that another pod may still fetch. A page that is
missing is not empty.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.lifecycle import Lifecycle
from cacheaware_sidecar.phase import Phase

QUIET_S = 5.0
FRESH_S = 3.0
"""A page older than this says nothing about now."""
HUNG_S = 30.0
"""An engine that has answered nothing for so long sends nothing to its clients either."""
PINNED_NOTHING = 0.005
"""Engines that count their null block as used show a small usage when empty."""
ALONE = "Both"
"""The role of a pod that hands no KV on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """What the pages have been saying about the pod's emptiness."""

    since: float | None = None
    """Since when nothing runs, waits or moves."""
    seen: float | None = None
    """When the last page of the quiet time was read."""
    unpinned_since: float | None = None
    """Since when no KV is pinned, of engines that tell."""
    ranks: int = 0
    """The most engine ranks that one page has shown."""
    counters: tuple[float | None, ...] | None = None
    """Requests and tokens counted by the last page."""
    came: float | None = None
    """All requests that had come by the last page: ended, running and waiting."""
    arrived: float | None = None
    """When a page last showed a new request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """What a pod does with the KV of requests that are done."""

    role: str = ALONE
    """Both, Prefill or Decode."""
    timeout_s: float = 480.0
    """After this the connector lets go of KV that nobody fetched."""


class Outcome(StrEnum):
    """How a wait for emptiness stands."""

    WAITING = "waiting"
    DONE = "done"
    DEADLINE = "deadline"


def observe(
    quiet: Quiet, sample: EngineSample | None, now: float, unsent: int | None = None
) -> Quiet:
    """Takes one more look into account.

    Args:
        quiet: Of the looks before.
        sample: The page; None is a look that failed.
        now: When it was read.
        unsent: What was left in the engine's connections at that moment; None where not known.
    """
    if sample is None:
        return replace(quiet, since=None, seen=None, unpinned_since=None)
    ranks = max(quiet.ranks, sample.engines or 0)
    counters = (sample.requests, sample.prompt_tokens, sample.generation_tokens)
    moved = quiet.counters is not None and counters != quiet.counters
    complete = (sample.engines or 0) >= ranks
    still = complete and sample.running == 0 and sample.waiting == 0 and not unsent and not moved
    unpinned = still and sample.usage is not None and sample.usage < PINNED_NOTHING
    came = requests_that_came(sample)
    new = came is not None and quiet.came is not None and came > quiet.came
    return Quiet(
        since=first(quiet.since, now) if still else None,
        seen=now if still else None,
        unpinned_since=first(quiet.unpinned_since, now) if unpinned else None,
        ranks=ranks,
        counters=counters,
        came=came,
        arrived=now if new else quiet.arrived,
    )


def requests_that_came(sample: EngineSample) -> float | None:
    """Ended, running and waiting; engines that don't count what ended show what is there."""
    if sample.running is None or sample.waiting is None:
        return None
    return (sample.requests or 0.0) + sample.running + sample.waiting


def first(mark: float | None, now: float) -> float:
    """Since when something holds."""
    return now if mark is None else mark


def is_quiet(quiet: Quiet, now: float, handover: Handover = Handover()) -> bool:
    """Whether the pod has been empty for five seconds, up to now."""
    if quiet.since is None or quiet.seen is None or now - quiet.seen > FRESH_S:
        return False
    quiet_s = quiet.seen - quiet.since
    if handover.role == ALONE or quiet_s >= handover.timeout_s:
        return quiet_s >= QUIET_S
    return quiet.unpinned_since is not None and quiet.seen - quiet.unpinned_since >= QUIET_S


def arrival_age(quiet: Quiet, since: float, now: float) -> float | None:
    """Seconds since the last new request; None where none has come since that moment."""
    if quiet.arrived is None or quiet.arrived < since:
        return None
    return now - quiet.arrived


def outcome(state: Lifecycle, *, deadline: float, now: float) -> Outcome:
    """How the wait of one hook stands: each has its own deadline, all share the drain.

    Done: the pod is drained, or a new engine has taken the place of the one to be waited for.
    """
    if state.drain is None or state.phase is Phase.DRAINED:
        return Outcome.DONE
    return Outcome.DEADLINE if now >= deadline else Outcome.WAITING


def is_empty(
    state: Lifecycle,
    quiet: Quiet,
    *,
    floor_s: float,
    now: float,
    handover: Handover = Handover(),
) -> bool:
    """Whether a cordon or the final drain has emptied the pod."""
    leaving = state.drain or state.cordon
    return leaving is not None and now >= leaving.began + floor_s and is_quiet(quiet, now, handover)


def is_hung(silent_since: float | None, now: float) -> bool:
    """Whether the engine has left every look without an answer for too long to be at work."""
    return silent_since is not None and now - silent_since >= HUNG_S
