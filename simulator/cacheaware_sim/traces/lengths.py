"""How many tokens prompts and outputs have: distributions to draw from."""

from bisect import bisect_right
from dataclasses import dataclass
from math import exp, log
from random import Random
from typing import Protocol


class Lengths(Protocol):
    """A distribution of token counts, all of them at least 1."""

    def draw(self, rng: Random) -> int:
        """One token count."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same."""

    tokens: int

    def draw(self, rng: Random) -> int:
        """That number."""
        del rng
        return self.tokens


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every whole number of a range, its ends included."""

    least: int
    most: int

    def draw(self, rng: Random) -> int:
        """One of the range."""
        return rng.randint(self.least, self.most)


@dataclass(frozen=True, slots=True)
class ClippedNormal:
    """A normal distribution, what lies outside of the range put onto its ends."""

    mean: float
    std_dev: float
    least: int
    most: int

    def draw(self, rng: Random) -> int:
        """Rounded and inside the range."""
        return min(self.most, max(self.least, round(rng.gauss(self.mean, self.std_dev))))


@dataclass(frozen=True, slots=True)
class Lognormal:
    """A lognormal distribution without what lies outside of the range (it is drawn again)."""

    p50: float
    sigma: float
    least: int
    most: int

    def draw(self, rng: Random) -> int:
        """Rounded and inside the range; a range that is hardly ever met ends at its nearer end."""
        for _ in range(100):
            tokens = round(rng.lognormvariate(log(self.p50), self.sigma))
            if self.least <= tokens <= self.most:
                return tokens
        return self.least if self.p50 < self.least else self.most


@dataclass(frozen=True, slots=True)
class Quantiles:
    """(share, tokens) from (0, least) to (1, most), straight lines of log(tokens) in between."""

    points: tuple[tuple[float, int], ...]

    def draw(self, rng: Random) -> int:
        """The inverse of the distribution at a uniform share."""
        share = rng.random()
        above = bisect_right(self.points, share, key=lambda point: point[0])
        (low_share, low), (high_share, high) = self.points[above - 1], self.points[above]
        part = (share - low_share) / (high_share - low_share)
        return round(exp(log(low) + part * (log(high) - log(low))))
