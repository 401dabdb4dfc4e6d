"""When a pod is empty: the rule of the cordon and of the final drain, without a clock.

For five seconds on end, on good pages that show every engine rank: nothing runs or waits, no
counter of requests or tokens moves, and nothing lies unsent or unread in the engine's connections.
In a final drain the floor has passed as well: until then a load balancer may still send new
requests. Prefill and decode pods also hold no KV that another pod may still fetch. A page that is
missing is not empty.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from cacheaware_sidecar.engine_sockets import Rest
from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.lifecycle import Lifecycle
from cacheaware_sidecar.phase import Phase

QUIET_S = 5.0
FRESH_S = 3.0
"""A page older than this says nothing about now."""
HUNG_S = 30.0
"""An engine that has answered and read nothing for so long sends nothing to its clients either."""
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


@dataclass(frozen=True, slots=True)
class Silence:
    """Looks on end at which the engine gave no sign of life."""

    since: float
    unsent: int | None
    """Bytes of its answers that the kernel had not got rid of at the last look."""


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
    quiet: Quiet, sample: EngineSample | None, now: float, rest: Rest | None = None
) -> Quiet:
    """Takes one more look into account.

    Args:
        quiet: Of the looks before.
        sample: The page; None is a look that failed.
        now: When it was read.
        rest: What was left in the engine's connections at that moment; None where not known.
    """
    if sample is None:
        return replace(quiet, since=None, seen=None, unpinned_since=None)
    ranks = max(quiet.ranks, sample.engines or 0)
    counters = (sample.requests, sample.prompt_tokens, sample.generation_tokens)
    moved = quiet.counters is not None and counters != quiet.counters
    complete = (sample.engines or 0) >= ranks
    still = complete and sample.running == 0 and sample.waiting == 0 and not rest and not moved
    unpinned = still and holds_nothing(sample)
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


def holds_nothing(sample: EngineSample) -> bool:
    """Whether no KV is pinned; vLLM before 0.9 counts the null block of each engine as used."""
    if sample.usage is None:
        return False
    used_blocks = sample.usage * (sample.num_blocks or 0)
    return sample.usage == 0 or 0 < used_blocks < (sample.engines or 1) + 0.5


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


def silent(before: Silence | None, rest: Rest | None, now: float) -> Silence | None:
    """Takes a look into account that was left without an answer.

    An engine that lives reads what comes to it, at least our own request for its page, however
    late it answers. And as long as bytes go out to clients, something is still sent.

    Args:
        before: The silence up to this look; None where the last look was answered.
        rest: What is left in the engine's connections; None where not known.
        now: When the look ended.

    Returns:
        None where the connections show a sign of life.
    """
    since = before.since if before else now
    if rest is None:
        return Silence(since, None)
    shrinks = before is not None and before.unsent is not None and rest.unsent < before.unsent
    if shrinks or not rest.is_ignored:
        return None
    return Silence(since, rest.unsent)


def is_hung(silence: Silence | None, now: float) -> bool:
    """Whether the engine has given no sign of life for too long to be at work."""
    return silence is not None and now - silence.since >= HUNG_S
