"""Since when a pod's gauge shows more than its requests can hold: caches that are kept.

Most engines count as used what requests pin. Some count cached prefixes as well (LMDeploy with
`--enable-prefix-caching`), or blocks that a connector keeps for another tier (vLLM with a store for
KV): their gauges stay up with no reason. A cache that is truly full has waiting requests,
preemptions or slower answers before long.
"""

from msgspec import Struct

from cacheaware.decide.fleet import PodLoad

FULL = 0.95
SLOWED = 0.5
"""A request that gets less than this share of the tokens per second that it got before is held up.
"""


class Fullness(Struct, frozen=True, kw_only=True):
    """What the looks up to now say."""

    since: float | None = None
    """Since when no look spoke against it; None: the last did."""
    pace: float = 0.0
    """The most tokens per second that a running request got since then."""
    queued: bool = False
    """Requests waited in the last look: what waits in two in a row waits for room."""


def fuller(before: Fullness, load: PodLoad, at: float) -> Fullness:
    """Take in one more look; what is not known speaks against it.

    >>> full = PodLoad(usage=1.0, running=2.0, waiting=0.0, generation_tokens_per_s=80.0)
    >>> fuller(Fullness(since=0.0, pace=50.0), full, 5.0)
    Fullness(since=0.0, pace=50.0, queued=False)
    """
    if load.running is None or load.waiting is None:
        return Fullness()
    queued = load.waiting > 0
    if not holds(load) or load.preemptions_per_s or (queued and before.queued):
        return Fullness(queued=queued)
    if not load.running:
        return Fullness(since=first(before.since, at), pace=before.pace, queued=queued)
    if load.generation_tokens_per_s is None:
        return Fullness(queued=queued)
    pace = load.generation_tokens_per_s / load.running
    if pace < SLOWED * before.pace:
        return Fullness(since=at, pace=pace, queued=queued)
    return Fullness(since=first(before.since, at), pace=max(before.pace, pace), queued=queued)


def holds(load: PodLoad) -> bool:
    """Whether the cache is full, or in use by no request at all."""
    shown = max((one for one in (load.usage, load.usage_max) if one is not None), default=0.0)
    if load.running == 0 and load.waiting == 0:
        return shown > 0
    return shown >= FULL


def first(mark: float | None, now: float) -> float:
    """Since when something holds."""
    return now if mark is None else mark
