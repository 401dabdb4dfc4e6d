"""What a workload's requests are like and how fast its pods decode, as looks at them have taught.

What pods tell now counts before it. It serves where they don't: after a restart, or when a burst
comes upon a fleet that was idle. Where nothing was measured nothing is assumed: the weights and the
GPU, which would bound the speed, are not known here.
"""

from bisect import bisect_left
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

NEWEST = 1 / 30
"""The least weight of a new minute: what was long ago fades within an hour."""
BANDS = 12
"""Powers of two of running requests that are kept apart: from 1 to 2,048 and above."""


class Sizes(Struct, frozen=True):
    """Tokens of a request, the mean over the requests that looks at pods saw begin."""

    prompt: float
    answer: float
    looks: int
    """That taught it."""


class Decode(Struct, frozen=True):
    """How fast a pod makes tokens with about so many requests running."""

    running: float
    tokens_per_s: float
    looks: int


class Work(Struct, frozen=True, kw_only=True):
    """What is known of a workload's requests; None and () until it was measured."""

    sizes: Sizes | None = None
    decode: tuple[Decode, ...] = ()
    """One for each power of two of running requests that was seen, fewest first."""

    @property
    def request_tokens(self) -> float | None:
        """Prompt and answer of an average request."""
        return None if self.sizes is None else self.sizes.prompt + self.sizes.answer


def blended(old: float, new: float, looks: int, more: int) -> float:
    """A mean of so many looks with more of them; each minute has a weight of 1/30 at least.

    >>> blended(100.0, 200.0, 1, 1), blended(100.0, 400.0, 1000, 1)
    (150.0, 110.0)
    """
    return old + (new - old) * max(NEWEST, more / (looks + more))


def with_sizes(work: Work, told: Iterable[tuple[float, float, float]]) -> Work:
    """The work with a minute's sizes more.

    Args:
        work: as known before.
        told: of each pod that tells, prompt, answer and how many requests began.
    """
    seen = sorted(told)
    began = sum(weight for _, _, weight in seen)
    if not began:
        return work
    count = len(seen)
    new = Sizes(
        sum(prompt * weight for prompt, _, weight in seen) / began,
        sum(answer * weight for _, answer, weight in seen) / began,
        count,
    )
    if (old := work.sizes) is not None:
        new = Sizes(
            blended(old.prompt, new.prompt, old.looks, count),
            blended(old.answer, new.answer, old.looks, count),
            old.looks + count,
        )
    return replace(work, sizes=new)


def with_speeds(work: Work, told: Iterable[tuple[float, float]]) -> Work:
    """The work with a minute's speeds more: of each pod, running requests (>= 1) and tokens/s."""
    bands = {band(one.running): one for one in work.decode}
    seen: dict[int, list[tuple[float, float]]] = {}
    for pair in sorted(told):
        seen.setdefault(band(pair[0]), []).append(pair)
    for place, pairs in seen.items():
        bands[place] = with_pairs(bands.get(place), pairs)
    return replace(work, decode=tuple(bands[place] for place in sorted(bands)))


def with_pairs(old: Decode | None, pairs: list[tuple[float, float]]) -> Decode:
    """A band's means with more pairs of running requests and tokens per second."""
    count = len(pairs)
    running, speed = sum(one for one, _ in pairs) / count, sum(one for _, one in pairs) / count
    if old is None:
        return Decode(running, speed, count)
    return Decode(
        blended(old.running, running, old.looks, count),
        blended(old.tokens_per_s, speed, old.looks, count),
        old.looks + count,
    )


def band(running: float) -> int:
    """Which power of two, rounded down, so many requests are.

    >>> band(1.0), band(15.9), band(16.0)
    (0, 3, 4)
    """
    return min(BANDS, int(running).bit_length()) - 1


def decode_speed(work: Work, running: float) -> float | None:
    """Tokens per second of a pod with so many requests running; None where none was measured.

    Between what was measured it is a straight line; below, a request is as fast as at the least
    that was measured; above, a pod is no faster than at the most.

    >>> seen = Work(decode=(Decode(4.0, 200.0, 9), Decode(8.0, 300.0, 9)))
    >>> [decode_speed(seen, running) for running in (2.0, 6.0, 99.0)]
    [100.0, 250.0, 300.0]
    """
    points = work.decode
    if not points:
        return None
    above = bisect_left(points, running, key=lambda one: one.running)
    if above == 0:
        return points[0].tokens_per_s * running / points[0].running
    if above == len(points):
        return points[-1].tokens_per_s
    low, high = points[above - 1], points[above]
    part = (running - low.running) / (high.running - low.running)
    return low.tokens_per_s + part * (high.tokens_per_s - low.tokens_per_s)
