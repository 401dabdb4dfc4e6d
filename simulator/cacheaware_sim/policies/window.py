"""Values of the last seconds: means and peaks over a time window."""

from collections import deque


class TimeWindow:
    """Values with their times, those of the last `keep_s` seconds."""

    def __init__(self, keep_s: float) -> None:
        self._keep_s = keep_s
        self._values: deque[tuple[float, float]] = deque()

    def add(self, at: float, value: float) -> None:
        """A newer value; what is too old is dropped."""
        self._values.append((at, value))
        while self._values[0][0] <= at - self._keep_s:
            self._values.popleft()

    def last(self, seconds: float, now: float) -> tuple[float, ...]:
        """The values after `now - seconds`."""
        return tuple(value for at, value in self._values if at > now - seconds)

    def mean(self, seconds: float, now: float) -> float | None:
        """Their mean; None where there are none."""
        values = self.last(seconds, now)
        return sum(values) / len(values) if values else None
