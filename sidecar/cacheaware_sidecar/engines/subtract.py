"""What is a sidecar's own doing, taken off what an engine tells."""

from dataclasses import dataclass, replace

from cacheaware_sidecar.engines.sample import EngineSample, Histogram


def since(before: Histogram | None, after: Histogram | None) -> Histogram | None:
    """What a histogram has observed since an earlier look at it.

    All of it where there was none before, and where the engine has begun anew: its counts have
    fallen, or its bounds are others. 8 observations of 4 s and then 10 of 5 s are 2 of 1 s.
    """
    if before is None or after is None or not _goes_on(before, after):
        return after
    buckets = (
        (bound, count - old)
        for (bound, count), (_, old) in zip(after.buckets, before.buckets, strict=True)
    )
    return Histogram(after.count - before.count, after.sum - before.sum, tuple(buckets))


def _goes_on(before: Histogram, after: Histogram) -> bool:
    if [bound for bound, _ in before.buckets] != [bound for bound, _ in after.buckets]:
        return False
    if after.count < before.count or after.sum < before.sum:
        return False
    pairs = list(zip(after.buckets, before.buckets, strict=True))
    grown = [count - old for (_, count), (_, old) in pairs]
    return all(low <= high for low, high in zip([0.0, *grown], grown, strict=False))


def without_own(sample: EngineSample, own: int) -> EngineSample:
    """The sample with so many requests of our own taken off those that run, then that wait."""
    if not own or sample.running is None:
        return sample
    running = max(0.0, sample.running - own)
    left = own - (sample.running - running)
    waiting = None if sample.waiting is None else max(0.0, sample.waiting - left)
    return replace(sample, running=running, waiting=waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What requests of our own have added to an engine's counters."""

    requests: float = 0.0
    prompt_tokens: float = 0.0
    generation_tokens: float = 0.0

    def __add__(self, other: "Own") -> "Own":
        return Own(
            requests=self.requests + other.requests,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            generation_tokens=self.generation_tokens + other.generation_tokens,
        )


def with_own(before: EngineSample, after: EngineSample, own: Own) -> EngineSample:
    """The earlier sample as if what was our own had come before it.

    Never above the later one: a page that does not count it yet is not a counter that fell.
    """
    pairs = {
        name: (getattr(before, name), getattr(after, name), getattr(own, name))
        for name in Own.__dataclass_fields__
    }
    moved = {
        name: max(old, min(old + ours, new))
        for name, (old, new, ours) in pairs.items()
        if old is not None and new is not None
    }
    return replace(before, **moved)


def has_counted(before: EngineSample | None, after: EngineSample | None, requests: int) -> bool:
    """Whether a page shows that so many requests have ended since; True where it can't tell."""
    if before is None or after is None or before.requests is None or after.requests is None:
        return True
    return after.requests - before.requests >= requests or after.requests < before.requests
