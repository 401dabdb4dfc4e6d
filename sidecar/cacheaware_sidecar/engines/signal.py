"""Where one number stands on a page: its names, and which of their series count."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from cacheaware_sidecar.engines.exposition import Labels

Series = tuple[Labels, float]


class Range(Enum):
    """What a value may be; anything else is unknown."""

    COUNT = "0 or more"
    FRACTION = "0 to 1"
    RATIO_OR_OFF = "0 to 1, or -1 for off"


@dataclass(frozen=True, slots=True)
class Signal:
    """One number: the names it may have, newest first, and which of their series count."""

    names: tuple[bytes, ...]
    where: Mapping[str, str] = field(default_factory=dict)
    """Labels that a series must have, for engines that put several numbers under one name."""
    total: tuple[str, str] | None = None
    """(label, value) of the series that is the sum of its neighbours: taken alone where it is."""
    fallback: tuple[str, str] | None = None
    """(label, value) of the series that repeats its neighbours: left out where they are."""

    def choose(self, series: list[Series]) -> list[Series]:
        """The series that count."""
        if self.where:
            wanted = self.where.items()
            series = [each for each in series if wanted <= each[0].items()]
        if self.total:
            label, value = self.total
            series = [each for each in series if each[0].get(label) == value] or series
        if self.fallback:
            label, value = self.fallback
            series = [each for each in series if each[0].get(label) != value] or series
        return series


@dataclass(frozen=True, slots=True)
class Family:
    """The three series of a histogram."""

    bucket: Signal
    total: Signal
    count: Signal

    def signals(self) -> tuple[Signal, ...]:
        """All three."""
        return self.bucket, self.total, self.count


def names(prefix: str, *suffixes: str) -> tuple[bytes, ...]:
    """Metric names with their common prefix."""
    return tuple((prefix + suffix).encode() for suffix in suffixes)


def families(prefix: str, *suffixes: str) -> tuple[Family, ...]:
    """Histograms with the common prefix of their names."""
    parts = ("_bucket", "_sum", "_count")
    return tuple(
        Family(*(Signal(names(prefix, suffix + part)) for part in parts)) for suffix in suffixes
    )
