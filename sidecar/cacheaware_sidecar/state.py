"""What a sidecar tells about its pod: the types behind `GET /v1/state`, the frozen contract.

Fields are only ever added. Ages, never wall-clock times: the clocks of nodes differ. Unknown is
None, never 0. How they look as JSON is in `state_json`.
"""

from dataclasses import dataclass, field

from cacheaware_sidecar.engines import EngineSample, Histogram, Rates
from cacheaware_sidecar.kv import Geometry

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
    """The engine's own latency histograms, cumulative since the pod began to serve.

    What the warm-up added is taken off. A sidecar that was restarted and does not know it any more
    counts from its first page on.
    """

    ttft_s: Histogram | None = None
    tpot_s: Histogram | None = None
    e2e_s: Histogram | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The engine's own totals since its start, warm-up included: what came between two looks."""

    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    requests: float | None = None
    """That have ended."""
    prefill_seconds: float | None = None
    """Of those: of the pod, whose data-parallel engines prefill at the same time."""
    prefilled_tokens: float | None = None
    """Of those, without what was found in the prefix cache."""


def counters(sample: EngineSample) -> Counters:
    """The totals of a page.

    >>> counters(EngineSample(engines=4, prefill_seconds=20.0)).prefill_seconds
    5.0
    """
    seconds, engines = believed_prefill(sample), sample.engines
    return Counters(
        prompt_tokens=sample.prompt_tokens,
        generation_tokens=sample.generation_tokens,
        requests=sample.requests,
        prefill_seconds=seconds / engines if seconds is not None and engines else None,
        prefilled_tokens=sample.prefilled_tokens,
    )


def believed_prefill(sample: EngineSample) -> float | None:
    """Seconds of prefill; None where they are more than those of the whole requests.

    vLLM counts a request that was aborted while it waited, by `/pause?mode=abort`, as a prefill
    that took as long as the node is up. From one such on the total is no speed.
    """
    seconds, whole = sample.prefill_seconds, sample.e2e
    return None if seconds is not None and whole and seconds > whole.sum else seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeState:
    """What the warm-up found out about one shape of request."""

    name: str
    requests: int = 0
    """That were answered."""
    tokens: int | None = None
    """Of the last prompt, by the engine's own count."""
    first_s: float | None = None
    """Latency of the first prompt of that shape; of several at once the slowest."""
    last_s: float | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupState:
    """Where the warm-up stands."""

    step: int = 0
    steps: int = 0
    verdict: str | None = None
    """Warm, Ready (budget used up), Failed, NotApplicable, Off; None while it runs."""
    duration_s: float | None = None
    requests: int | None = None
    """What it has added to the engine's counters; None until it has ended."""
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    shapes: tuple[ShapeState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartState:
    """How long this engine took to come; None until that is over, or where it was not seen."""

    loading_s: float | None = None
    """From the sidecar's start until the engine was healthy."""
    warming_s: float | None = None
    """From then until the pod served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainState:
    """Where a cordon or a final drain stands; all None when there is neither."""

    deadline_s: float | None = None
    """Seconds left of the final drain."""
    running: float | None = None
    waiting: float | None = None
    cordoned_by: str | None = None
    """Who holds the cordon: the uid of a CacheAwareScaler, or `relief`."""
    cordoned_s: float | None = None
    """How long the cordon has lasted."""
    lease_s: float | None = None
    """Seconds until the cordon ends by itself."""
    empty: bool | None = None
    """Whether the pod is empty by the rule of the drain, up to now."""
    arrival_age_s: float | None = None
    """Since the last request that arrived after the cordon or drain began; None: none has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingState:
    """What the last minute of pages shows of the KV cache's health."""

    id: str = ""
    severity: str = ""
    """error, warning or info."""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryState:
    """What the canary says: whether the engine answers as its baseline does."""

    verdict: str | None = None
    """Learning, Same, Drifted, NotComparable, NotApplicable; None before the first run."""
    reason: str | None = None
    """Why it is none of Same and Drifted, or why the last run brought nothing."""
    baseline: str | None = None
    """file or learned; None until it is learned."""
    age_s: float | None = None
    """Since the last run that was answered or could not apply."""
    answered: int = 0
    """Runs since the sidecar's start."""
    failed: int = 0
    skipped: int = 0
    tokens: int | None = None
    """Compared in the last run."""
    difference_nats: float | None = None
    """Mean difference of their log probabilities."""
    tolerance_nats: float | None = None
    """The mean difference up to which it is no drift."""
    largest_nats: float | None = None
    changed_ratio: float | None = None
    """Share of the answer's tokens that are others, 0..1."""
    first_changed: int | None = None
    """Place of the first of them, from 0."""
    drifted_runs: int = 0
    """On end; three are a finding."""


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
    counters: Counters = field(default_factory=Counters)
    latency: Latency = field(default_factory=Latency)
    warmup: WarmupState = field(default_factory=WarmupState)
    start: StartState = field(default_factory=StartState)
    drain: DrainState = field(default_factory=DrainState)
    adapters: tuple[str, ...] = ()
    """LoRA adapters that requests are using."""
    sleeping: bool | None = None
    """Whether the engine sleeps: it serves nothing, and its KV cache is discarded."""
    findings: tuple[FindingState, ...] = ()
    """Of a pod that serves or is cordoned."""
    canary: CanaryState | None = None
    """None where it is off."""
    problems: tuple[str, ...] = ()


def kv_state(sample: EngineSample, geometry: Geometry | None) -> KvState:
    """The KV cache of a pod.

    Capacity in bytes is, first that is there: what the engine reports; blocks x bytes per block;
    tokens x the bytes that the pool pays for a token, an estimate. Used bytes are the engine's,
    or the same share of the capacity as of the tokens.

    Args:
        sample: What the metrics page said.
        geometry: Of the model at the sample's block size; None where no config is known, and
            then bytes are known only if the engine tells them.
    """
    capacity, estimated = _capacity_bytes(sample, geometry)
    used = sample.used_bytes
    if used is None and capacity is not None and sample.usage is not None:
        used = sample.usage * capacity
    sized = geometry is not None and sample.block_size is not None
    return KvState(
        usage=sample.usage,
        usage_max=sample.usage_max,
        used_bytes=used,
        capacity_bytes=capacity,
        used_tokens=sample.used_tokens,
        capacity_tokens=sample.capacity_tokens,
        page_bytes=geometry.largest_page_bytes if geometry and sized else None,
        block_size=sample.block_size,
        estimated=estimated,
    )


def _capacity_bytes(sample: EngineSample, geometry: Geometry | None) -> tuple[float | None, bool]:
    """Bytes of all pools of the pod, and whether they are an estimate.

    Blocks count only where the geometry's blocks are the engine's: of the same size.
    """
    if sample.capacity_bytes is not None or geometry is None:
        return sample.capacity_bytes, False
    block_bytes = geometry.pod_bytes_per_block
    if sample.num_blocks and block_bytes and sample.block_size == geometry.block_size:
        return float(sample.num_blocks * block_bytes), False
    token_bytes = geometry.pod_bytes_per_token_reserved
    if sample.capacity_tokens is None or not token_bytes:
        return None, False
    return sample.capacity_tokens * token_bytes, True
