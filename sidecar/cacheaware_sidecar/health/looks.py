"""One or two looks at an engine, and what happened between them."""

import math
from dataclasses import dataclass
from typing import Any

from cacheaware_sidecar.engines.rates import Rates, fell_alone, rates, ratio, restarted
from cacheaware_sidecar.engines.sample import EngineSample, Histogram
from cacheaware_sidecar.engines.scan import scan
from cacheaware_sidecar.engines.subtract import since
from cacheaware_sidecar.health.signs import Signs, signs


@dataclass(frozen=True, slots=True)
class Look:
    """What one page tells."""

    sample: EngineSample
    signs: Signs


def look(page: bytes) -> Look:
    """Read a page; whatever is on it, this does not raise."""
    return Look(scan(page), signs(page))


@dataclass(frozen=True, slots=True)
class Looks:
    """The newest look, and the one before it where there was one."""

    now: Look
    before: Look | None = None
    seconds: float | None = None
    """Between the two; None where nobody knows, and then no rate per second is known."""

    @property
    def sample(self) -> EngineSample:
        """What the newest page tells."""
        return self.now.sample

    @property
    def signs(self) -> Signs:
        """What the newest page tells beyond the load."""
        return self.now.signs

    @property
    def two_engines(self) -> bool:
        """Whether the pages are of different engines: then nothing between them is known."""
        return self.before is not None and self.before.sample.engine != self.sample.engine

    @property
    def comparable(self) -> "Looks":
        """These looks; the newest alone where the one before is of another engine."""
        return Looks(self.now) if self.two_engines else self

    @property
    def fallen(self) -> str | None:
        """A counter that fell alone, while the process is the same: it is wrong, not anew."""
        return None if self.before is None else fell_alone(self.before.sample, self.sample)

    @property
    def restarted(self) -> bool:
        """Whether the engine began anew between the looks."""
        if self.before is None or self.two_engines:
            return False
        return restarted(self.before.sample, self.sample)

    @property
    def span(self) -> str:
        """The time between the looks, in words."""
        return f"in {self.seconds:g} s" if self.seconds else "between the looks"

    @property
    def rates(self) -> Rates:
        """Rates between the looks; None each without both and the time between them."""
        if self.before is None or self.seconds is None or self.two_engines:
            return Rates()
        return rates(self.before.sample, self.sample, self.seconds)

    def grown(self, name: str) -> float | None:
        """What a counter of the sample or of the signs has gained; None without two looks.

        After a restart, and where a counter has fallen, all of its value has grown since. None of
        one that fell alone, and of two engines.
        """
        if self.before is None or self.two_engines or name == self.fallen:
            return None
        old: float | None = _field(self.before, name)
        new: float | None = _field(self.now, name)
        if new is None or self.restarted:
            return new
        if old is None:
            return None
        return new if new < old else new - old

    def per_second(self, name: str) -> float | None:
        """`grown` over the time; None where either is unknown."""
        return ratio(self.grown(name), self.seconds)

    def between(self, name: str) -> Histogram | None:
        """What a histogram has observed between the looks; all of it where there is but one."""
        if self.before is None or self.two_engines or self.restarted:
            now: Histogram | None = _field(self.now, name)
            return now
        return since(_field(self.before, name), _field(self.now, name))


def _field(one: Look, name: str) -> Any:
    """A field of the sample, or of the signs where the sample has none of that name."""
    return getattr(one.sample if hasattr(one.sample, name) else one.signs, name)


def mean(histogram: Histogram | None) -> float | None:
    """The mean of the observations; None where there are none.

    >>> mean(Histogram(4.0, 10.0, ()))
    2.5
    """
    return ratio(histogram.sum, histogram.count) if histogram else None


def tokens_per_request(looks: Looks) -> float | None:
    """KV tokens that a request takes when it ends: its prompt and its answer.

    From the histograms of lengths, else from the counters of the two looks, else from what the
    running ones have taken up to now, which is less than they will take.
    """
    lengths = [mean(looks.between(name)) for name in ("prompts", "answers")]
    if None not in lengths:
        return sum(one for one in lengths if one is not None)
    found = looks.rates
    if found.prompt_tokens_per_request and found.generation_tokens_per_request is not None:
        return found.prompt_tokens_per_request + found.generation_tokens_per_request
    return ratio(looks.sample.used_tokens, looks.sample.running)


def sequences_that_fit(capacity_tokens: float, tokens_each: float) -> int:
    """How many requests of this length the pool holds at once; at least 1.

    >>> sequences_that_fit(77_088, 1_000)
    77
    """
    return max(1, math.floor(capacity_tokens / tokens_each))
