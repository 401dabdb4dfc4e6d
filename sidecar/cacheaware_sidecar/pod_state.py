"""What a sidecar tells about its pod: the types behind `GET /v1/state`.

Fields are only ever added. Ages, never wall-clock times: the clocks of nodes differ. Unknown is
None, never 0.
"""

from dataclasses import dataclass, field

from cacheaware_sidecar.engines import Histogram, Rates

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KvState:
    """The pod's KV cache: tokens and bytes per pod (x tensor parallel, summed over stages)."""

    usage: float | None = None
    usage_max: float | None = None
    used_bytes: float | None = None
    capacity_bytes: float | None = None
    used_tokens: float | None = None
    capacity_tokens: float | None = None
    page_bytes: int | None = None
    """One block of one layer on one rank; the largest where layers differ."""
    block_size: int | None = None
    estimated: bool = False
    """True where bytes come from tokens x bytes per token, not from blocks or the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The engine's own latency histograms, cumulative since its start."""

    ttft_s: Histogram | None = None
    tpot_s: Histogram | None = None
    e2e_s: Histogram | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupState:
    """Where the warm-up stands."""

    step: int = 0
    steps: int = 0
    verdict: str | None = None
    """Warm, Ready (budget used up), Failed, NotApplicable, Off; None while it runs."""
    duration_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainState:
    """Where the drain stands; all None or 0 when none has begun."""

    deadline_s: float | None = None
    """Seconds left."""
    running: float | None = None
    waiting: float | None = None
    cordoned_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """All that a sidecar tells about its pod."""

    schema: int = SCHEMA
    phase: str
    """loading, warming, serving, cordoned, draining, drained."""
    phase_age_s: float | None = None
    sample_age_s: float | None = None
    """Age of the newest good scrape; None when there was none yet."""
    sample_seq: int | None = None
    """Counts good scrapes: the same number again is the same sample again."""
    engine: str | None = None
    version: str | None = None
    models: tuple[str, ...] = ()
    running: float | None = None
    waiting: float | None = None
    kv: KvState = field(default_factory=KvState)
    rates: Rates = field(default_factory=Rates)
    latency: Latency = field(default_factory=Latency)
    warmup: WarmupState = field(default_factory=WarmupState)
    drain: DrainState = field(default_factory=DrainState)
    problems: tuple[str, ...] = ()
