"""What a metrics page tells beyond the load: what only a diagnosis asks for.

Names: vLLM `vllm/v1/metrics/loggers.py`, LMDeploy `lmdeploy/metrics/loggers.py`, TGI
`router/src/server.py`. `kv_cache_token_usage_perc` is of a proposed change (vllm#57336), in no
release yet. Every gauge called usage is a fraction, whatever its name says.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from cacheaware_sidecar.engines.detect import AUTO, FINDER, detect
from cacheaware_sidecar.engines.dialect import Dialect
from cacheaware_sidecar.engines.exposition import Finder, Found, read_series
from cacheaware_sidecar.engines.histograms import histogram_of
from cacheaware_sidecar.engines.load import load_of
from cacheaware_sidecar.engines.reader import Rank, Reader
from cacheaware_sidecar.engines.sample import Histogram
from cacheaware_sidecar.engines.signal import Family, Range, Series, Signal, families, names

TOKEN_USAGE: Final = Signal(names("vllm:", "kv_cache_token_usage_perc"))
OFFLOAD: Final = Signal(names("vllm:", "kv_offload_cpu_cache_usage_perc", "cpu_cache_usage_perc"))
CORRUPTED: Final = Signal(names("vllm:", "corrupted_requests_total"))
REJECTED: Final = Signal(names("vllm:", "admission_rejections_total"))
CPU: Final = Signal((b"process_cpu_seconds_total",))
HISTOGRAMS: Final[dict[str, tuple[Family, ...]]] = {
    "prompts": (
        *families("vllm:", "request_prompt_tokens"),
        *families("lmdeploy:", "request_prompt_tokens"),
        *families("tgi_", "request_input_length"),
    ),
    "answers": (
        *families("vllm:", "request_generation_tokens"),
        *families("lmdeploy:", "request_generation_tokens"),
        *families("tgi_", "request_generated_tokens"),
    ),
    "prefill": (
        *families("vllm:", "request_prefill_time_seconds"),
        *families("lmdeploy:", "request_prefill_time_seconds"),
    ),
    "steps": (
        *families("vllm:", "iteration_tokens_total"),
        *families("lmdeploy:", "iteration_tokens_total"),
    ),
}
_PARTS = [part for choice in HISTOGRAMS.values() for one in choice for part in one.signals()]
_SIGNALS = (TOKEN_USAGE, OFFLOAD, CORRUPTED, REJECTED, CPU, *_PARTS)
_FINDER = Finder(frozenset(name for signal in _SIGNALS for name in signal.names))


@dataclass(frozen=True, slots=True)
class RankLoad:
    """What one data-parallel engine of a pod carries."""

    name: str
    running: float | None
    waiting: float | None
    usage: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Numbers of one page; None where it does not tell."""

    ranks: tuple[RankLoad, ...] = ()
    """Of pages that name more than one engine."""
    token_usage: float | None = None
    """Share of the token slots that hold data, 0..1: below the usage in blocks."""
    offload_usage: float | None = None
    """Share of the host's tier that is used, 0..1."""
    corrupted: float | None = None
    """Counter, requests whose logits held NaN; only counted with VLLM_COMPUTE_NANS_IN_LOGITS."""
    rejected: float | None = None
    """Counter, requests that the engine refused at admission."""
    cpu_seconds: float | None = None
    """Counter, of the process that serves the page: HTTP, tokeniser, detokeniser."""
    prompts: Histogram | None = None
    """Prompt tokens a request."""
    answers: Histogram | None = None
    """Generated tokens a request."""
    prefill: Histogram | None = None
    """Seconds from scheduled to first token."""
    steps: Histogram | None = None
    """Tokens of one step of the engine."""
    not_ratios: tuple[tuple[str, float], ...] = ()
    """(name, value) of gauges above 1 that should be fractions."""


def signs(page: bytes) -> Signs:
    """Read what a diagnosis wants; whatever is on the page, this does not raise."""
    found, load = _FINDER.find(page), FINDER.find(page)
    dialect, _ = detect(load, AUTO)
    reader = Reader(found)
    return Signs(
        ranks=_ranks(load, dialect) if dialect else (),
        token_usage=_fullest(reader, TOKEN_USAGE),
        offload_usage=_fullest(reader, OFFLOAD),
        corrupted=reader.total(CORRUPTED),
        rejected=reader.total(REJECTED),
        cpu_seconds=reader.total(CPU),
        not_ratios=(*(_not_ratios(load, dialect)), *_above_one(found, TOKEN_USAGE, OFFLOAD)),
        **{name: histogram_of(reader, choice) for name, choice in HISTOGRAMS.items()},
    )


def _fullest(reader: Reader, signal: Signal) -> float | None:
    return max((value for _, value in reader.series(signal, Range.FRACTION) or ()), default=None)


def _ranks(found: Found, dialect: Dialect) -> tuple[RankLoad, ...]:
    """The engines of the page, where it names several."""
    reader = Reader(found, engine_labels=dialect.engine_labels, repeat_labels=dialect.repeat_labels)
    load = load_of(reader, dialect)
    if len(load.ranks) < 2:
        return ()
    running, waiting = _by_rank(reader, load.running), _by_rank(reader, load.waiting)
    fullest: defaultdict[Rank, float] = defaultdict(float)
    for labels, value in load.usage or ():
        fullest[reader.rank(labels)] = max(fullest[reader.rank(labels)], value)
    return tuple(
        RankLoad(" ".join(rank), running.get(rank), waiting.get(rank), fullest.get(rank))
        for rank in sorted(load.ranks)
    )


def _by_rank(reader: Reader, series: list[Series] | None) -> dict[Rank, float]:
    return reader.by_engine(series or ())


def _not_ratios(found: Found, dialect: Dialect | None) -> list[tuple[str, float]]:
    """The engine's own usage and hit ratio, where they are above 1."""
    gauges = (dialect.usage, dialect.hit_ratio) if dialect else ()
    return _above_one(found, *(signal for signal in gauges if signal))


def _above_one(found: Found, *signals: Signal) -> list[tuple[str, float]]:
    above = []
    for signal in signals:
        for name in signal.names:
            series = [one for one in map(read_series, found.get(name, ())) if one]
            above += [(name.decode(), value) for _, value in signal.choose(series) if value > 1]
    return above
