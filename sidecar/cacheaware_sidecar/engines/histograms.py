"""Histograms off a page, summed over the series of the pod.

Most lines of a page are buckets, so the usual case has a short way of its own.
"""

import math
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable

from cacheaware_sidecar.engines.exposition import bounds_of, number_of
from cacheaware_sidecar.engines.reader import Reader
from cacheaware_sidecar.engines.sample import Histogram
from cacheaware_sidecar.engines.signal import Family, Signal

Buckets = dict[float, float]
"""Observations at or below each upper bound."""


def histogram_of(reader: Reader, families: Iterable[Family]) -> Histogram | None:
    """The first of the histograms that is on the page; None where it is not whole."""
    for family in families:
        if any(reader.has(signal) for signal in family.signals()):
            return _histogram(reader, family)
    return None


def _histogram(reader: Reader, family: Family) -> Histogram | None:
    buckets = _buckets(reader, family.bucket) if reader.has(family.bucket) else {}
    total, count = reader.total(family.total), reader.total(family.count)
    if count is None and buckets and not reader.has(family.count):
        count = buckets.get(math.inf)
    if buckets is None or total is None or count is None:
        return None
    buckets.setdefault(math.inf, count)
    ordered = tuple(sorted(buckets.items()))
    if not _is_cumulative(ordered):
        reader.problem(family.bucket.names[0], "the counts do not rise from 0 with their bounds")
        return None
    return Histogram(count, total, ordered)


def _is_cumulative(buckets: tuple[tuple[float, float], ...]) -> bool:
    """Whether the counts rise from 0 to a finite number; NaN is in no order."""
    counts = [0.0, *(count for _, count in buckets)]
    return all(map(operator.le, counts, counts[1:])) and counts[-1] < math.inf


def _buckets(reader: Reader, signal: Signal) -> Buckets | None:
    """Observations by bound; None where a line is bad."""
    lines = reader.found[signal.names[0]]
    buckets = None if reader.repeat_labels else _of_one_series(lines)
    return _of_many_series(reader, signal) if buckets is None else buckets


def _of_one_series(lines: list[bytes]) -> Buckets | None:
    """The short way; None where it does not do, be it that lines are bad or bounds repeat."""
    parts = [line.rpartition(b"}") for line in lines]
    tails = [tail for _, _, tail in parts]
    if b"_" in b"".join(tails):
        return None
    try:
        bounds = bounds_of([block for block, _, _ in parts])
        buckets = dict(zip(bounds, map(float, tails), strict=True))
    except ValueError:
        return None
    return buckets if len(buckets) == len(lines) else None


def _of_many_series(reader: Reader, signal: Signal) -> Buckets | None:
    """The long way: engines added, ranks that repeat folded, timestamps and exemplars read."""
    series = reader.series(signal)
    if series is None:
        return None
    sums: defaultdict[float, float] = defaultdict(float)
    bounds = [number_of(labels.get("le", "").encode()) for labels, _ in series]
    for bound, (_, value) in zip(bounds, series, strict=True):
        sums[math.nan if bound is None else bound] += value
    if any(map(math.isnan, sums)):
        reader.problem(signal.names[0], "a line has no number le")
        return None
    if len(set(Counter(bounds).values())) > 1:
        reader.problem(signal.names[0], "the engines of the pod have different buckets")
        return None
    return dict(sums)
