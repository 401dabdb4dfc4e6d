"""Reads signals off the series found on a page, and keeps what could not be read."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from cacheaware_sidecar.engines.exposition import Found, Labels, read_series
from cacheaware_sidecar.engines.signal import Range, Series, Signal

Rank = tuple[str, ...]
"""Values of the labels that tell the engines of a pod apart."""


class Reader:
    """One page in one dialect. What it meets on the way: `models`, `problems`."""

    def __init__(
        self,
        found: Found,
        *,
        engine_labels: Sequence[str] = (),
        repeat_labels: frozenset[str] = frozenset(),
    ) -> None:
        self.found = found
        self.engine_labels = engine_labels
        self.repeat_labels = repeat_labels
        self.models: set[str] = set()
        self.problems: list[str] = []

    def problem(self, name: bytes, what: str) -> None:
        """Note in one line what could not be read."""
        self.problems.append(f"{name.decode()}: {what}")

    def has(self, signal: Signal) -> bool:
        """Whether one of its names is on the page."""
        return any(name in self.found for name in signal.names)

    def series(self, signal: Signal, allowed: Range = Range.COUNT) -> list[Series] | None:
        """The series of the first of its names that is here; None if absent or one is bad.

        Repeats (ranks that report the same) are folded into the largest.
        """
        for name in signal.names:
            if name in self.found:
                return self._series(name, signal, allowed)
        return None

    def _series(self, name: bytes, signal: Signal, allowed: Range) -> list[Series] | None:
        series = []
        for rest in self.found[name]:
            each = read_series(rest)
            if each is None:
                self.problem(name, "a line is not well formed")
                return None
            series.append(each)
        series = signal.choose(series)
        for labels, value in series:
            if not within(value, allowed):
                self.problem(name, f"{value} is not a number from {allowed.value}")
                return None
            self.models.add(labels.get("model_name") or labels.get("model") or "")
        return self._fold_repeats(series) or None

    def _fold_repeats(self, series: list[Series]) -> list[Series]:
        if not self.repeat_labels or len(series) < 2:
            return series
        largest: dict[frozenset[tuple[str, str]], Series] = {}
        for labels, value in series:
            key = frozenset(item for item in labels.items() if item[0] not in self.repeat_labels)
            if key not in largest or value > largest[key][1]:
                largest[key] = labels, value
        return list(largest.values())

    def rank(self, labels: Labels) -> Rank:
        """Which engine of the pod the series is about; () where it does not say."""
        values = tuple(labels.get(name, "") for name in self.engine_labels)
        return values if any(values) else ()

    def by_engine(self, series: Iterable[Series]) -> dict[Rank, float]:
        """Sums over everything but the engine."""
        sums: defaultdict[Rank, float] = defaultdict(float)
        for labels, value in series:
            sums[self.rank(labels)] += value
        return dict(sums)

    def total(self, *signals: Signal) -> float | None:
        """The sum of all series; None unless the first signal is here and all are good."""
        total = 0.0
        for number, signal in enumerate(signals):
            series = self.series(signal)
            if series is not None:
                total += sum(value for _, value in series)
            elif number == 0 or self.has(signal):
                return None
        return total

    def largest(self, signal: Signal) -> float | None:
        """The largest of the series; None if absent or one is bad."""
        return max((value for _, value in self.series(signal) or ()), default=None)


def within(value: float, allowed: Range) -> bool:
    """Whether a value may be so; NaN never is."""
    if allowed is Range.COUNT:
        return 0 <= value < math.inf
    return 0 <= value <= 1 or (allowed is Range.RATIO_OR_OFF and value == -1)
