"""What an engine carries: running, waiting and usage over all its ranks, a missing one noticed."""

from dataclasses import dataclass

from cacheaware_sidecar.engines.dialect import Capacity, Dialect
from cacheaware_sidecar.engines.reader import Rank, Reader
from cacheaware_sidecar.engines.signal import Range, Series, Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The series of the three gauges that every engine should have, and whom they are about."""

    running: list[Series] | None
    waiting: list[Series] | None
    usage: list[Series] | None
    ranks: frozenset[Rank]
    """The engines that they name; () alone where they don't."""


def load_of(reader: Reader, dialect: Dialect) -> Load:
    """Read the three gauges; each is None where it does not tell of every engine."""
    running, waiting = _joined(reader, dialect.running), _joined(reader, dialect.waiting)
    usage = _expected(reader, dialect.usage, Range.FRACTION) if dialect.usage else None
    ranks = _ranks(reader, running, waiting, usage)
    return Load(
        running=_complete(reader, dialect.running, running, ranks),
        waiting=_complete(reader, dialect.waiting, waiting, ranks),
        usage=_complete(reader, (dialect.usage,) if dialect.usage else (), usage, ranks),
        ranks=ranks,
    )


def total_of(series: list[Series] | None) -> float | None:
    """The sum over engines and models."""
    return None if series is None else sum(value for _, value in series)


def usage_of(reader: Reader, load: Load, capacity: Capacity) -> tuple[float | None, float | None]:
    """Usage weighted by capacity, or the mean where not every capacity is known; the fullest."""
    if not load.usage:
        return None, None
    values = [value for _, value in load.usage]
    weights = [capacity.tokens_by_engine.get(reader.rank(labels)) for labels, _ in load.usage]
    known = [weight for weight in weights if weight]
    if len(known) < len(values):
        known = [1.0] * len(values)
    weighted = sum(weight * value for weight, value in zip(known, values, strict=True))
    return weighted / sum(known), max(values)


def _expected(reader: Reader, signal: Signal, allowed: Range = Range.COUNT) -> list[Series] | None:
    """The series of a signal; its absence is a problem."""
    if not reader.has(signal):
        reader.problem(signal.names[0], "not on the page")
    return reader.series(signal, allowed)


def _joined(reader: Reader, signals: tuple[Signal, ...]) -> list[Series] | None:
    """The series of all signals; None if the first is absent or one is bad."""
    joined = _expected(reader, signals[0])
    for signal in signals[1:]:
        more = reader.series(signal) if reader.has(signal) else []
        joined = None if joined is None or more is None else joined + more
    return joined


def _ranks(reader: Reader, *gauges: list[Series] | None) -> frozenset[Rank]:
    ranks = {reader.rank(labels) for series in gauges for labels, _ in series or ()}
    return frozenset(ranks - {()} or ranks)


def _complete(
    reader: Reader,
    signals: tuple[Signal, ...],
    series: list[Series] | None,
    ranks: frozenset[Rank],
) -> list[Series] | None:
    """The series, or None if they name engines and one is missing: it is not empty."""
    told = {reader.rank(labels) for labels, _ in series or ()}
    missing = ranks - told if told and () not in told else frozenset()
    for rank in sorted(missing):
        where = zip(reader.engine_labels, rank, strict=True)
        name = ", ".join(f"{label} {value}" for label, value in where)
        reader.problem(signals[0].names[0], f"{name} is missing")
    return None if missing else series
