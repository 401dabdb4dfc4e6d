"""How an engine names things: a table from the sample's fields to metric names, and its ranks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cacheaware_sidecar.engines.exposition import Found
from cacheaware_sidecar.engines.reader import Rank, Reader
from cacheaware_sidecar.engines.signal import Family, Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What fits into the KV pools of the pod."""

    tokens: float | None = None
    tokens_by_engine: Mapping[Rank, float] = field(default_factory=dict)
    """Tokens of each engine, for weights; empty where that is not known."""
    num_blocks: int | None = None
    block_size: int | None = None
    kv_dtype: str | None = None


def no_capacity(_reader: Reader, _ranks: frozenset[Rank]) -> Capacity:
    """For engines that don't tell."""
    return Capacity()


def no_version(_found: Found) -> None:
    """For engines whose names prove nothing about the version."""
    return


ALL_TOKENS = frozenset({"prompt_tokens", "generation_tokens"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One engine's names.

    Where a field has several signals it is their sum: the first must be on the page, the others
    add where they are.
    """

    engine: str
    prefix: str
    """What its names begin with, for messages."""
    engine_labels: tuple[str, ...] = ()
    """Labels that tell the engines (data-parallel ranks) of a pod apart."""
    repeat_labels: frozenset[str] = frozenset()
    """Labels whose series repeat the same number: the largest is taken."""

    running: tuple[Signal, ...]
    waiting: tuple[Signal, ...]
    """All that is queued: also what waits for a grammar, a transfer, its swapped pages."""
    waiting_by_reason: Signal | None = None
    usage: Signal | None = None
    used_tokens: Signal | None = None
    capacity_names: tuple[bytes, ...] = ()
    """All names that `capacity` reads."""
    capacity: Callable[[Reader, frozenset[Rank]], Capacity] = no_capacity
    """From the reader, and the engines that the load's series name."""
    counters: Mapping[str, tuple[Signal, ...]] = field(default_factory=dict)
    """Field of EngineSample -> what it is the sum of."""
    counted_at_end: frozenset[str] = frozenset()
    """Token counters that get all tokens of a request when it ends, none while it runs."""
    hit_ratio: Signal | None = None
    adapters: Signal | None = None
    """Labels name the LoRA adapters in use; the value is when the series was written."""
    awake: Signal | None = None
    """1 for an engine that is awake, 0 for one that sleeps. It tells of no load, so a page that has
    nothing else is of no engine.
    """
    histograms: Mapping[str, tuple[Family, ...]] = field(default_factory=dict)
    """Field of EngineSample -> histograms that tell it, the best first."""
    started: tuple[bytes, ...] = ()
    version: Callable[[Found], str | None] = no_version

    def gauges(self) -> tuple[Signal, ...]:
        """All signals that are not counters."""
        optional = (
            self.waiting_by_reason,
            self.usage,
            self.used_tokens,
            self.hit_ratio,
            self.adapters,
        )
        return *self.running, *self.waiting, *(signal for signal in optional if signal)

    def names(self) -> frozenset[bytes]:
        """All names of the engine's own that are read."""
        counted = [signal for signals in self.counters.values() for signal in signals]
        families = [family for choice in self.histograms.values() for family in choice]
        parts = [signal for family in families for signal in family.signals()]
        signals = (*self.gauges(), *counted, *parts)
        return frozenset(name for each in signals for name in each.names) | {*self.capacity_names}
