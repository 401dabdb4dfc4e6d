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
from cacheaware_sidecar.engines.signal import Signal

PARTS = (b"_bucket", b"_sum", b"_count")
Buckets = dict[float, float]
"""Observations at or below each upper bound."""


def histogram_of(reader: Reader, names: Iterable[bytes]) -> Histogram | None:
    """The first of the histograms that is on the page; None where it is not whole."""
    for name in names:
        if any(name + part in reader.found for part in PARTS):
            return _histogram(reader, name)
    return None


def _histogram(reader: Reader, name: bytes) -> Histogram | None:
    bucket, total, count = (name + part for part in PARTS)
    buckets = _buckets(reader, bucket) if bucket in reader.found else {}
    observed, times = reader.total(Signal((total,))), reader.total(Signal((count,)))
    if times is None and buckets and count not in reader.found:
        times = buckets.get(math.inf)
    if buckets is None or observed is None or times is None:
        return None
    buckets.setdefault(math.inf, times)
    ordered = tuple(sorted(buckets.items()))
    if not _is_cumulative(ordered):
        reader.problem(bucket, "the counts do not rise from 0 with their bounds")
        return None
    return Histogram(times, observed, ordered)


def _is_cumulative(buckets: tuple[tuple[float, float], ...]) -> bool:
    """Whether the counts rise from 0 to a finite number; NaN is in no order."""
    counts = [0.0, *(count for _, count in buckets)]
    return all(map(operator.le, counts, counts[1:])) and counts[-1] < math.inf


def _buckets(reader: Reader, name: bytes) -> Buckets | None:
    """Observations by bound; None where a line is bad."""
    buckets = None if reader.repeat_labels else _of_one_series(reader.found[name])
    return _of_many_series(reader, name) if buckets is None else buckets


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


def _of_many_series(reader: Reader, name: bytes) -> Buckets | None:
    """The long way: engines added, ranks that repeat folded, timestamps and exemplars read."""
    series = reader.series(Signal((name,)))
    if series is None:
        return None
    sums: defaultdict[float, float] = defaultdict(float)
    bounds = [number_of(labels.get("le", "").encode()) for labels, _ in series]
    for bound, (_, value) in zip(bounds, series, strict=True):
        sums[math.nan if bound is None else bound] += value
    if any(map(math.isnan, sums)):
        reader.problem(name, "a line has no number le")
        return None
    if len(set(Counter(bounds).values())) > 1:
        reader.problem(name, "the engines of the pod have different buckets")
        return None
    return dict(sums)
