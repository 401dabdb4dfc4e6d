"""A part of a trace as load: the requests that `simulate run` plays with the same options."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import inf
from pathlib import Path

from cacheaware_sim.traces.formats import AUTO, FORMATS, open_trace
from cacheaware_sim.traces.reshape import MOST, between, scaled
from cacheaware_sim.traces.trace import TraceError, TraceRequest


class LoadError(ValueError):
    """A plan that makes no sense: one line with the field, its value and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTrace:
    """Which requests of a file are sent; times count from the beginning of the part.

    Raises:
        LoadError: One line with the field, its value and what is allowed.
    """

    path: Path
    format: str = AUTO
    from_s: float = 0.0
    to_s: float = inf
    scale: float = 1.0
    """Each request so many times, each copy up to 2 s later; below 1 some of the requests."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.format not in (AUTO, *FORMATS):
            allowed = ", ".join((AUTO, *FORMATS))
            raise LoadError(f"format {self.format}: must be one of {allowed}")
        if not 0 <= self.from_s < inf:
            raise LoadError(f"from {self.from_s:g}: must be at least 0")
        if not self.to_s > self.from_s:
            raise LoadError(f"to {self.to_s:g}: must be above from, {self.from_s:g}")
        if not 0 < self.scale <= MOST:
            raise LoadError(f"scale {self.scale:g}: must be above 0 and at most {MOST:g}")

    def requests(self) -> Iterator[TraceRequest]:
        """The requests by time, from the beginning of the file; the same each time.

        Raises:
            LoadError: One line: the file can't be read. Now, or on iteration.
        """
        try:
            trace = open_trace(self.path, self.format, seed=self.seed)
            yield from between(scaled(trace, self.scale, seed=self.seed), self.from_s, self.to_s)
        except TraceError as error:
            raise LoadError(str(error)) from error

    def check(self, most: int, until_s: float) -> None:
        """Read once what will be sent, so that a bad line is known before load flows.

        Args:
            most: So many requests are sent at most.
            until_s: None is sent from this second on.

        Raises:
            LoadError: A bad line, or nothing to send.
        """
        first = None
        for request in islice(self.requests(), most):
            if request.at >= until_s:
                break
            first = request
        if first is None:
            raise LoadError(
                f"from {self.from_s:g}, to {self.to_s:g}: must be a part of the trace with requests"
            )
