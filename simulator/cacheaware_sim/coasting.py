"""A row of iterations in which everyone gets a token and nothing else happens."""

from math import sqrt

SLACK = 1e-6
"""Iterations by which rounding may miss an end that is exactly now."""


class Coast:
    """When each of such iterations ends: each takes `growth_s` longer than the one before.

    The one that runs is the first of them; at the end of the last something happens.
    """

    __slots__ = ("began", "first_s", "growth_s", "iterations")

    def __init__(self, began: float, first_s: float, growth_s: float, iterations: int) -> None:
        self.began = began
        """When the iteration that runs has begun."""
        self.first_s = first_s
        """How long it takes."""
        self.growth_s = growth_s
        self.iterations = iterations

    def end(self, iterations: int) -> float:
        """When that many iterations will have ended.

        >>> Coast(10.0, 0.5, 0.25, 4).end(3)
        12.25
        """
        grown = iterations * (iterations - 1) // 2
        return self.began + iterations * self.first_s + grown * self.growth_s

    def ended(self, now: float) -> int:
        """How many have ended by `now`, the last one left out: that is for an ordinary step.

        >>> Coast(10.0, 0.5, 0.25, 4).ended(11.25), Coast(10.0, 0.5, 0.25, 4).ended(99.0)
        (2, 3)
        """
        if self.iterations < 2 or self.began + self.first_s > now:
            return 0
        passed = now - self.began
        linear = self.first_s - self.growth_s / 2
        root = sqrt(linear * linear + 2 * self.growth_s * passed)
        ended = min(int(2 * passed / (linear + root) + SLACK), self.iterations - 1)
        return ended if self.end(ended) <= now else ended - 1

    def drop(self, iterations: int) -> None:
        """Go on to the iteration after these."""
        self.began = self.end(iterations)
        self.first_s += iterations * self.growth_s
        self.iterations -= iterations
