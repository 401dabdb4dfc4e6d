"""What is remembered of a pod from round to round, and how a look changes it: pure functions."""

import dataclasses
from math import inf
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cacheaware.decide.fleet import PodLoad, PodView, Unknown
from cacheaware.decide.prefill_speed import Prefilled
from cacheaware.decide.supply import MOST, STARTING, within
from cacheaware.observe.latency import quantile
from cacheaware.observe.look import Look
from cacheaware.observe.lost_cache import CacheMemory, cached
from cacheaware.observe.retained import Fullness, fuller
from cacheaware.observe.warmup_speed import prefill_tokens_per_s
from cacheaware.pods import PodRecord
from cacheaware_sidecar.engines.sample import EngineSample, Histogram
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state import Counters, DrainState, StartState

WINDOW_SECONDS = 30.0
"""Rates and latencies are measured over one to two of these."""
SMOOTH_SECONDS = 60.0
"""The mean of what ran is over about this time, as a sidecar's rates are."""
PINNED_NOTHING = 0.005
"""Engines that count their null block as used show a small usage when empty."""


class Mark(Struct, frozen=True):
    """A look that later ones are measured against."""

    at: float
    samples: tuple[EngineSample, ...]
    ttft: Histogram | None


class PodMemory(Struct, frozen=True):
    """One pod's past, by uid.

    A tuple, for it is made anew at each look: a frozen dataclass takes several times as long.
    """

    restarts: int = 0
    served: bool = False
    """It has been Ready, or its sidecar said so, since its containers last restarted."""
    served_since: float | None = None
    """When it first was Ready, in the API's clock, as far as it was seen: a cordon that is called
    off makes no pod young again.
    """
    phase: Phase | None = None
    """The last phase that its sidecar told."""
    phase_at: float = 0.0
    """When its sidecar first told that phase, in the operator's clock."""
    warm_at: float = inf
    """When its sidecar first told that the start was over, infinite until then: what came after a
    sample from before that may be the warm-up's.
    """
    sidecar: bool = False
    """It was last seen through its sidecar."""
    drain: DrainState = DrainState()
    """What its sidecar last told of its cordon or final drain."""
    start: StartState = StartState()
    prefill_tokens_per_s: float | None = None
    """What the warm-up of its engine has measured; a sidecar that restarts forgets it."""
    seq: int | None = None
    seq_at: float = 0.0
    seq_age_s: float = 0.0
    """When the sample of this number first arrived, and how old it was then."""
    base: Mark | None = None
    newer: Mark | None = None
    load: PodLoad | None = None
    """The last good load; dropped once anything but a timeout answers."""
    unknown: Unknown | None = Unknown.NOT_YET_SEEN
    counters: Counters = Counters()
    """The engine's totals at the last look that brought a load."""
    prefilled: Prefilled = Prefilled()
    """Requests that ended between the last two such looks."""
    detail: str = ""
    findings: tuple[str, ...] = ()
    """Errors in its KV cache's health at the last look that brought a load."""
    seen_at: float = 0.0
    """When the newest good sample was taken, in the operator's clock."""
    idle_rounds: int = 0
    mean_running: float | None = None
    """Requests that ran over about the last minute."""
    fullness: Fullness = Fullness()
    cache: CacheMemory = CacheMemory()


def measured(memory: PodMemory, now: float) -> Mark | None:
    """The mark that a look at `now` is measured against."""
    newer = memory.newer
    return newer if newer is not None and now - newer.at >= WINDOW_SECONDS else memory.base


def remember(memory: PodMemory, record: PodRecord, look: Look | None) -> PodMemory:
    """Take in a round's look; None where the pod could not be asked."""
    cache = memory.cache if look is None else cached(memory.cache, memory.phase, look)
    memory = renewed(_life(memory, record, look), cache=cache)
    if look is None:
        return _unasked(memory)
    if look.load is None:
        return _silent(memory, look)
    return _heard(memory, look, look.load)


def _unasked(memory: PodMemory) -> PodMemory:
    drain = dataclasses.replace(memory.drain, empty=None)
    return replace(
        memory,
        idle_rounds=0,
        drain=drain,
        prefilled=Prefilled(),
        mean_running=None,
        fullness=Fullness(),
    )


def _life(memory: PodMemory, record: PodRecord, look: Look | None) -> PodMemory:
    if record.restarts > memory.restarts:
        memory = PodMemory(restarts=record.restarts)
    first = record.ready_since if memory.served_since is None else memory.served_since
    served = memory.served or record.ready or record.was_ready
    if look is None or look.phase is None:
        return replace(memory, served=served, served_since=first)
    start = look.start if look.start.warming_s is not None else memory.start
    since = memory.phase_at if look.phase is memory.phase else look.at
    return renewed(
        memory,
        served=served,
        served_since=first,
        phase=look.phase,
        phase_at=since,
        warm_at=inf if look.phase in STARTING else min(memory.warm_at, look.at),
        sidecar=True,
        drain=look.drain,
        start=start,
        prefill_tokens_per_s=_warmed_up(memory, look),
    )


def _warmed_up(memory: PodMemory, look: Look) -> float | None:
    """The speed that the last warm-up has measured: it is the same until the phase is another."""
    known = memory.prefill_tokens_per_s
    if known is not None and look.phase is memory.phase:
        return known
    return prefill_tokens_per_s(look.shapes) or known


def renewed(memory: PodMemory, **told: Any) -> PodMemory:
    """The memory with these fields; itself where they are so already, which most often they are."""
    for name, value in told.items():
        if getattr(memory, name) != value:
            return replace(memory, **told)
    return memory


def _silent(memory: PodMemory, look: Look) -> PodMemory:
    slow = look.unknown is Unknown.TIMED_OUT
    memory = memory if look.phase is not None else _unasked(memory)
    return replace(
        memory,
        unknown=look.unknown,
        detail=look.detail,
        findings=(),
        load=memory.load if slow else None,
        counters=memory.counters if slow else Counters(),
        prefilled=Prefilled(),
        idle_rounds=0,
        mean_running=None,
        fullness=Fullness(),
    )


def _heard(memory: PodMemory, look: Look, load: PodLoad) -> PodMemory:
    again = look.seq is not None and look.seq == memory.seq
    seq_at = memory.seq_at if again else look.at
    seq_age_s = memory.seq_age_s if again else look.sample_age_s
    base = measured(memory, look.at)
    idle_rounds = memory.idle_rounds if again else memory.idle_rounds + 1
    warm = not memory.sidecar or memory.seen_at >= memory.warm_at
    before = memory.counters if warm else Counters()
    came = grown(before.prompt_tokens, look.counters.prompt_tokens)
    return replace(
        memory,
        seq=look.seq,
        seq_at=seq_at,
        seq_age_s=seq_age_s,
        base=base or Mark(look.at, look.samples, look.ttft),
        newer=_newer(memory, look),
        load=replace(
            load,
            ttft_p90_s=_p90(base, look),
            new_prompt_tokens=0.0 if again else came,
        ),
        counters=look.counters,
        prefilled=Prefilled() if again else prefilled_between(before, look.counters),
        unknown=None,
        detail="",
        findings=look.findings,
        seen_at=seq_at - seq_age_s,
        idle_rounds=idle_rounds if idle(load) else 0,
        mean_running=smoothed(memory.mean_running, load.running, look.at - memory.seen_at),
        fullness=memory.fullness if again else fuller(memory.fullness, load, look.at),
    )


def smoothed(before: float | None, running: float | None, seconds: float) -> float | None:
    """The requests that ran over about the last minute; None where that is not known now.

    >>> smoothed(4.0, 10.0, 30.0), smoothed(None, 10.0, 5.0), smoothed(4.0, None, 5.0)
    (7.0, 10.0, None)
    """
    if running is None or before is None:
        return running
    return before + (running - before) * min(1.0, max(0.0, seconds) / SMOOTH_SECONDS)


def grown(before: float | None, now: float | None) -> float | None:
    """What a counter has counted between two looks; None where either does not tell.

    Nor is it known of one that fell: an engine has begun anew, and where a pod has several, all
    that the others ever counted would look as if it had come since.
    """
    return None if before is None or now is None or now < before else now - before


def prefilled_between(before: Counters, now: Counters) -> Prefilled:
    """The requests that ended between two looks; none where that is not known."""
    seconds = within(grown(before.prefill_seconds, now.prefill_seconds), MOST)
    tokens = within(grown(before.prefilled_tokens, now.prefilled_tokens), MOST)
    requests = within(grown(before.requests, now.requests), MOST)
    if seconds is None or tokens is None or requests is None:
        return Prefilled()
    return Prefilled(seconds=seconds, tokens=tokens, requests=requests)


def _newer(memory: PodMemory, look: Look) -> Mark:
    if memory.newer is not None and look.at - memory.newer.at < WINDOW_SECONDS:
        return memory.newer
    return Mark(look.at, look.samples, look.ttft)


def _p90(base: Mark | None, look: Look) -> float | None:
    if base is None or base.ttft is None or look.ttft is None:
        return None
    return quantile(base.ttft, look.ttft, 0.9)


def idle(load: PodLoad) -> bool:
    """Nothing runs, waits or is pinned; what is not known is not idle, save an absent usage."""
    return load.running == 0 and load.waiting == 0 and (load.usage or 0.0) < PINNED_NOTHING


def pod_view(
    record: PodRecord, memory: PodMemory, *, now: float, wall: float, stale_s: float
) -> PodView:
    """The pod as a decision sees it.

    Args:
        record: the pod's object.
        memory: its past, this round's look included.
        now: the operator's monotonic clock: ages of samples are judged by it alone.
        wall: seconds since the epoch, against the API's times.
        stale_s: a sample older than this is unknown.
    """
    stale = memory.load is not None and memory.unknown is None and now - memory.seen_at > stale_s
    unknown = Unknown.STALE if stale else memory.unknown
    phase = phase_of(record, memory)
    since = memory.served_since or 0.0
    serving = record.ready_since is not None and phase is Phase.SERVING
    drain, cordoned = memory.drain, phase is Phase.CORDONED
    full_since, emptied_at = memory.fullness.since, memory.cache.emptied_at
    return PodView(
        name=record.name,
        uid=record.uid,
        node=record.node,
        phase=phase,
        ready=record.ready,
        terminating=record.terminating,
        age_s=max(0.0, wall - record.created),
        serving_age_s=max(0.0, wall - since) if serving else None,
        load=memory.load if unknown is None else None,
        unknown=unknown,
        stale_load=memory.load if unknown is Unknown.TIMED_OUT else None,
        stale_age_s=max(0.0, now - memory.seen_at) if unknown is Unknown.TIMED_OUT else 0.0,
        idle_rounds=0 if unknown else memory.idle_rounds,
        sidecar=memory.sidecar,
        final_drain=record.final_drain,
        stuck=record.stuck,
        pending=record.pending,
        disrupted=record.disrupted,
        cordoned_by=drain.cordoned_by if cordoned else None,
        cordoned_s=(drain.cordoned_s or 0.0) if cordoned else 0.0,
        empty=cordoned and drain.empty is True,
        arrival_age_s=drain.arrival_age_s if cordoned else None,
        retained_s=0.0 if full_since is None or unknown else max(0.0, now - full_since),
        emptied_s=None if emptied_at is None else max(0.0, now - emptied_at),
        emptied_by=memory.cache.emptied_by,
        findings=() if unknown else memory.findings,
    )


def phase_of(record: PodRecord, memory: PodMemory) -> Phase:
    """What the sidecar last told; without one: serving from the first Ready on.

    A pod that served and is not Ready now still holds its requests: observation never unserves.
    """
    if memory.phase is not None:
        return memory.phase
    return Phase.SERVING if memory.served or record.ready else Phase.LOADING
