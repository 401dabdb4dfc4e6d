"""From a metrics page to an `EngineSample`: find the wanted names, see whose they are, combine."""

from dataclasses import replace
from typing import Any

from cacheaware_sidecar.engines.detect import AUTO, FINDER, detect
from cacheaware_sidecar.engines.dialect import Capacity, Dialect
from cacheaware_sidecar.engines.exposition import Found
from cacheaware_sidecar.engines.histograms import histogram_of
from cacheaware_sidecar.engines.load import Load, load_of, total_of, usage_of
from cacheaware_sidecar.engines.reader import Reader
from cacheaware_sidecar.engines.sample import EngineSample
from cacheaware_sidecar.engines.signal import Range, Signal

USED_BYTES = Signal((b"kv_cache_used_bytes",))
CAPACITY_BYTES = Signal((b"kv_cache_capacity_bytes",))


def scan(page: bytes, engine: str = AUTO) -> EngineSample:
    """Read a metrics page; whatever is on it, this does not raise.

    Args:
        page: The body as it came.
        engine: "auto", or one of `ENGINES` to read only that engine's names.

    Returns:
        What the page says. What is absent, NaN, infinite, negative or out of its range is None,
        with a line in `problems`. Without any known name `engine` is None.
    """
    found = FINDER.find(page)
    dialect, odd = detect(found, engine)
    if dialect is None:
        return EngineSample(problems=odd)
    sample = _sample(dialect, found)
    return replace(sample, problems=(*sample.problems, *odd)) if odd else sample


def _sample(dialect: Dialect, found: Found) -> EngineSample:
    """Combine what one page says: its data-parallel engines and models taken together."""
    reader = Reader(
        found,
        engine_labels=dialect.engine_labels,
        repeat_labels=dialect.repeat_labels,
    )
    load = load_of(reader, dialect)
    capacity = dialect.capacity(reader, load.ranks)
    fields: dict[str, Any] = {
        **_cache(reader, dialect, load, capacity),
        **{name: reader.total(*signals) for name, signals in dialect.counters.items()},
        **{name: histogram_of(reader, family) for name, family in dialect.histograms.items()},
    }
    return EngineSample(
        engine=dialect.engine,
        version=dialect.version(found),
        engines=len(load.ranks) or None,
        running=total_of(load.running),
        waiting=total_of(load.waiting),
        waiting_by_reason=_by_reason(reader, dialect.waiting_by_reason),
        prefix_hit_ratio=_hit_ratio(reader, dialect.hit_ratio),
        adapters=_adapters(reader, dialect.adapters),
        sleeping=_sleeping(reader, dialect.awake),
        started_at=_started(reader, dialect.started),
        **fields,
        models=tuple(sorted(reader.models - {""})),
        problems=tuple(reader.problems),
    )


def _cache(reader: Reader, dialect: Dialect, load: Load, capacity: Capacity) -> dict[str, Any]:
    """The fields about the KV pools; bytes that a page tells as such are taken as they are."""
    used_bytes, capacity_bytes = reader.total(USED_BYTES), reader.total(CAPACITY_BYTES)
    usage, fullest = usage_of(reader, load, capacity)
    if usage is None and dialect.usage is None:
        usage = fullest = _share(reader, used_bytes, capacity_bytes)
    used_tokens = reader.total(dialect.used_tokens) if dialect.used_tokens else None
    if used_tokens is None and usage is not None and capacity.tokens is not None:
        used_tokens = usage * capacity.tokens
    return {
        "usage": usage,
        "usage_max": fullest,
        "used_tokens": used_tokens,
        "used_bytes": used_bytes,
        "capacity_tokens": capacity.tokens,
        "capacity_bytes": capacity_bytes,
        "num_blocks": capacity.num_blocks,
        "block_size": capacity.block_size,
        "kv_dtype": capacity.kv_dtype,
    }


def _share(reader: Reader, used: float | None, capacity: float | None) -> float | None:
    if used is None or not capacity:
        return None
    if used > capacity:
        reader.problem(USED_BYTES.names[0], f"{used} is more than the capacity {capacity}")
        return None
    return used / capacity


def _by_reason(reader: Reader, signal: Signal | None) -> tuple[tuple[str, float], ...]:
    sums: dict[str, float] = {}
    for labels, value in (reader.series(signal) if signal else None) or ():
        reason = labels.get("reason", "")
        sums[reason] = sums.get(reason, 0.0) + value
    return tuple(sorted(sums.items()))


def _hit_ratio(reader: Reader, signal: Signal | None) -> float | None:
    """The mean over the engines; -1 is the engine's word for: no prefix caching."""
    series = reader.series(signal, Range.RATIO_OR_OFF) if signal else None
    values = [value for _, value in series or () if value >= 0]
    return sum(values) / len(values) if values else None


def _adapters(reader: Reader, signal: Signal | None) -> tuple[str, ...]:
    """LoRA adapters of running and waiting requests, by the newest of the series.

    vLLM leaves the series of earlier adapters on the page; their value is the time of writing.
    """
    series = (reader.series(signal) if signal and reader.has(signal) else None) or []
    newest = max(series, key=lambda each: each[1], default=None)
    labels = newest[0] if newest else {}
    kinds = ("running_lora_adapters", "waiting_lora_adapters")
    named = (name.strip() for kind in kinds for name in labels.get(kind, "").split(","))
    return tuple(sorted({name for name in named if name}))


def _sleeping(reader: Reader, awake: Signal | None) -> bool | None:
    """Whether none of the engines is awake; of a pod where one is, requests find that one."""
    series = reader.series(awake) if awake else None
    return all(value == 0 for _, value in series) if series else None


def _started(reader: Reader, names: tuple[bytes, ...]) -> float | None:
    """The earliest start that the page tells of."""
    series = reader.series(Signal(names)) if names else None
    return min((value for _, value in series or ()), default=None)
