"""Numbers that are not known exactly: a value with the span in which it is expected."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its span.

    Attributes:
        low: The least that was seen or is thinkable.
        expected: What is reckoned with.
        high: The most.
    """

    low: float
    expected: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.expected <= self.high:
            raise ValueError(f"{self} is no span")

    def __add__(self, other: "Estimate") -> "Estimate":
        """Both together, at their ends at once: the widest span."""
        return Estimate(
            self.low + other.low, self.expected + other.expected, self.high + other.high
        )

    def taken_from(self, whole: "Estimate") -> "Estimate":
        """What is left of the whole: least where most is taken from the least."""
        return Estimate(
            whole.low - self.high, whole.expected - self.expected, whole.high - self.low
        )

    def scaled(self, factor: float) -> "Estimate":
        """Times a factor that is not negative."""
        return Estimate(self.low * factor, self.expected * factor, self.high * factor)

    def rising(self, function: Callable[[float], float]) -> "Estimate":
        """Through a function that never falls."""
        return Estimate(function(self.low), function(self.expected), function(self.high))


def exactly(value: float) -> Estimate:
    """A value without a span."""
    return Estimate(value, value, value)
