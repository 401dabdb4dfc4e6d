"""What a model needs on a GPU: what fits on a rank, how fast it is, how many replicas it takes."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cacheaware.model.architecture import Architecture, architecture
from cacheaware.model.engine_memory import (
    UTILIZATION,
    RankMemory,
    Scheduler,
    default_scheduler,
    rank_memory,
)
from cacheaware.model.engine_speed import DECODE_SHARE, PREFILL_SHARE, Replica, Speed, roofs
from cacheaware.model.estimates import Estimate
from cacheaware.model.gpus import Gpu
from cacheaware.model.layers import Attention, Latent
from cacheaware.model.precision import AUTO, Precision, precision_of
from cacheaware.model.serving_load import (
    Limit,
    Load,
    Need,
    Point,
    best_point,
    need_of,
    point_at,
    replicas_for,
    seconds_until_full,
    slowest,
    spare_for,
)
from cacheaware_sidecar.kv import ConfigError, Geometry, Parallel, geometry
from cacheaware_sidecar.kv.blocks import DEFAULT_BLOCK_SIZE
from cacheaware_sidecar.kv.errors import refusal

LATENT_BLOCK_SIZE: Final = 64
"""What backends for latent (MLA) caches take; others take vLLM's 16."""
_TWO_DIES: Final = "MI250X"
_RANKS: Final = (1, 2, 4, 8)
"""Tensor-parallel sizes of one node."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked.

    Attributes:
        gpu: The GPU.
        load: Rate, lengths, targets.
        peak: Requests a second at the peak.
        count: GPUs there are; None for as many as needed.
        kv_dtype: As the engine's `--kv-cache-dtype`.
        weights: The storage of linear layers; `auto` for what the file says.
        max_model_len: The longest request; None for what the model and the pool allow.
        utilization: `--gpu-memory-utilization`.
    """

    gpu: Gpu
    load: Load
    peak: float
    count: int | None = None
    kv_dtype: str = AUTO
    weights: str = AUTO
    max_model_len: int | None = None
    utilization: float = UTILIZATION


@dataclass(frozen=True, slots=True)
class Pool:
    """A rank's KV cache.

    Attributes:
        bytes: Of one rank; below zero where memory is missing.
        blocks: Engine blocks; None where the grouping is unknown.
        tokens: Tokens that the replica's cache holds; None where no rate is known.
        at_expected: Requests of prompt + output tokens that fit.
        at_longest: Requests of the greatest length that fit.
    """

    bytes: Estimate
    blocks: Estimate | None
    tokens: Estimate | None
    at_expected: Estimate
    at_longest: Estimate


@dataclass(frozen=True, slots=True)
class Candidate:
    """One tensor-parallel size.

    Attributes:
        tensor: Ranks of a replica.
        kept: The KV cache on these ranks.
        memory: Of one rank.
        pool: What is left for the cache.
        longest: The longest request: as told, else what the model and the pool allow.
        speed: At the expected share of the roofline; None where nothing fits.
        point: A replica at work; None where nothing fits or a target can't be met.
        slow: The target that even one request misses.
        rate: Requests a second of one replica, with its span; None without a point.
    """

    tensor: int
    kept: Geometry
    memory: RankMemory
    pool: Pool
    longest: int
    speed: Speed | None = None
    point: Point | None = None
    slow: Limit | None = None
    rate: Estimate | None = None

    @property
    def fits(self) -> bool:
        """Whether weights and one request of the greatest length fit."""
        return self.pool.at_longest.expected >= 1

    @property
    def rate_per_gpu(self) -> float:
        """Requests a second and GPU; 0 where it can't serve."""
        return self.point.rate / self.tensor if self.point else 0.0

    def gpus_for(self, rate: float) -> float:
        """GPUs that carry a rate; without end where it can't serve."""
        return replicas_for(rate, self.point.rate) * self.tensor if self.point else math.inf


@dataclass(frozen=True, slots=True)
class Replicas:
    """How many replicas, and what follows.

    Attributes:
        now: For the load.
        peak: For the peak.
        now_span: `now` at the best and the worst end of memory and speed; None: never enough.
        peak_span: `peak` likewise.
        at_work: One of them at the load.
        need: What the load asks of each resource.
        full_in_s: Seconds from the begin of a peak until the caches of `now` replicas are full;
            None where they never are.
        spare: Replicas beside `now` that keep a burst from filling them before new ones serve.
    """

    now: int
    peak: int
    now_span: tuple[int, int | None]
    peak_span: tuple[int, int | None]
    at_work: Point
    need: Need
    full_in_s: float | None
    spare: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer.

    Attributes:
        wish: What was asked.
        model: The model.
        precision: How its weights are stored.
        scheduler: Engine defaults that were reckoned with.
        candidates: Tensor-parallel sizes that the heads allow.
        refused: Sizes that they don't, with the reason.
        chosen: The best of them; None where nothing fits.
        replicas: None where nothing serves the load.
    """

    wish: Wish
    model: Architecture
    precision: Precision
    scheduler: Scheduler
    candidates: tuple[Candidate, ...]
    refused: tuple[tuple[int, str], ...]
    chosen: Candidate | None
    replicas: Replicas | None


def plan(config: Mapping[str, Any], wish: Wish) -> Plan:
    """Plan a model.

    Raises:
        UnknownArchitectureError: No rule covers the model.
        ConfigError: A field or option that can't be right.
    """
    wish = replace(wish, gpu=as_engines_see(wish.gpu))
    model = architecture(config)
    precision = precision_of(config, wish.gpu, wish.weights)
    _check_lengths(model, wish)
    candidates, refused = [], []
    for tensor in _RANKS:
        if wish.count is None or tensor <= wish.count:
            try:
                found = sized(config, model, precision, wish, tensor)
                replica = Replica(model, found.kept, precision, wish.gpu)
                candidates.append(_with_speed(replica, wish, found) if found.fits else found)
            except ConfigError as error:
                if tensor == 1:
                    raise
                refused.append((tensor, str(error)))
    chosen = best(candidates, wish.peak)
    return Plan(
        wish=wish,
        model=model,
        precision=precision,
        scheduler=default_scheduler(wish.gpu),
        candidates=tuple(candidates),
        refused=tuple(refused),
        chosen=chosen,
        replicas=_replicas(wish, chosen),
    )


def as_engines_see(gpu: Gpu) -> Gpu:
    """A card of two dies is two GPUs of half the size to an engine."""
    if gpu.name != _TWO_DIES:
        return gpu
    return replace(
        gpu,
        name=f"{gpu.name} (one die of two)",
        memory_gib=gpu.memory_gib / 2,
        bandwidth_gb_s=gpu.bandwidth_gb_s / 2,
        tflops={dtype: rate / 2 for dtype, rate in gpu.tflops.items()},
    )


def _check_lengths(model: Architecture, wish: Wish) -> None:
    asked = wish.load.tokens
    told, positions = wish.max_model_len, model.max_positions
    if told is not None and told < asked:
        raise refusal(
            "max-model-len", told, f"prompt and output together are {asked:,} tokens: at least that"
        )
    if positions is not None and max(asked, told or 0) > positions:
        field = "max-model-len" if told else "prompt + output"
        raise refusal(field, max(asked, told or 0), f"the model has {positions:,} positions")


def sized(
    config: Mapping[str, Any], model: Architecture, precision: Precision, wish: Wish, tensor: int
) -> Candidate:
    """What fits on this many ranks; speed is not looked at.

    Raises:
        ConfigError: Heads that can't be split so, or a field that can't be right.
    """
    kept = _kept(config, model, wish, tensor)
    memory = rank_memory(model, precision, kept, wish.gpu, wish.utilization)
    longest = _longest(model, kept, memory, wish)
    pool = pool_of(kept, memory.pool, wish.load, longest)
    return Candidate(tensor, kept, memory, pool, longest)


def _kept(config: Mapping[str, Any], model: Architecture, wish: Wish, tensor: int) -> Geometry:
    heads = {one.mixer.heads for one in model.layers if isinstance(one.mixer, Attention | Latent)}
    for count in sorted(heads):
        if count % tensor:
            allowed = f"allowed are multiples of tensor parallel {tensor}"
            raise refusal("num_attention_heads", count, allowed)
    size = LATENT_BLOCK_SIZE if model.kept.kv_heads is None else DEFAULT_BLOCK_SIZE
    return geometry(config, Parallel(tensor), wish.kv_dtype, size)


def _longest(model: Architecture, kept: Geometry, memory: RankMemory, wish: Wish) -> int:
    """The longest request: as told, else the positions, or fewer where the pool holds fewer."""
    if wish.max_model_len is not None:
        return wish.max_model_len
    positions = model.max_positions or wish.load.tokens
    if requests_in(kept, memory.pool.expected, positions) >= 1:
        return positions
    return max(wish.load.tokens, _longest_in(kept, memory.pool.expected, positions))


def _longest_in(kept: Geometry, available: float, positions: int) -> int:
    """The longest request that fits, in whole 1,024 tokens."""
    low, high = 0, positions
    while high - low > 1:
        middle = (low + high) // 2
        if requests_in(kept, available, middle) >= 1:
            low = middle
        else:
            high = middle
    return low // 1024 * 1024


def requests_in(kept: Geometry, available: float, tokens: int) -> float:
    """Requests of this many tokens that fit into the bytes of one rank.

    By blocks, as the engine does; by bytes where its grouping isn't known. 0 where no size is.
    """
    whole = max(0, int(available))
    blocks, each = kept.blocks_from_bytes(whole), kept.blocks_per_request(tokens)
    if blocks is not None and each:
        return blocks / each
    exact = kept.bytes_per_request(tokens)
    return whole / exact if exact else 0.0


def pool_of(kept: Geometry, available: Estimate, load: Load, longest: int) -> Pool:
    """What a pool of this size holds."""

    def tokens(of: float) -> float:
        whole = max(0, int(of))
        blocks = kept.blocks_from_bytes(whole)
        held = None if blocks is None else kept.tokens_in_blocks(blocks, longest)
        return float(held if held is not None else kept.tokens_from_bytes(whole) or 0)

    known = kept.blocks_from_bytes(0) is not None
    return Pool(
        bytes=available,
        blocks=available.rising(lambda of: float(kept.blocks_from_bytes(max(0, int(of))) or 0))
        if known
        else None,
        tokens=available.rising(tokens) if kept.bytes_per_token_reserved else None,
        at_expected=available.rising(lambda of: requests_in(kept, of, load.tokens)),
        at_longest=available.rising(lambda of: requests_in(kept, of, longest)),
    )


def _with_speed(replica: Replica, wish: Wish, found: Candidate) -> Candidate:
    load = wish.load
    sequences = default_scheduler(wish.gpu).sequences
    slots = found.pool.at_expected
    most = max(1, min(sequences, int(slots.high)))
    roof = roofs(replica, load.prompt, load.prompt + load.output // 2, most)

    def point(prefill: float, decode: float, held: float) -> Point | None:
        return best_point(roof.speed(prefill, decode), load, int(held), sequences)

    speed = roof.speed(PREFILL_SHARE.expected, DECODE_SHARE.expected)
    at = point(PREFILL_SHARE.expected, DECODE_SHARE.expected, slots.expected)
    if at is None:
        return replace(found, speed=speed, slow=slowest(speed, load))
    low = point(PREFILL_SHARE.low, DECODE_SHARE.low, slots.low)
    high = point(PREFILL_SHARE.high, DECODE_SHARE.high, slots.high)
    rate = Estimate(
        min(low.rate if low else 0.0, at.rate), at.rate, max(high.rate if high else 0.0, at.rate)
    )
    return replace(found, speed=speed, point=at, rate=rate)


def best(candidates: Iterable[Candidate], peak: float) -> Candidate | None:
    """The size that serves the peak with the fewest GPUs; of equal ones the one that carries more.

    Where none meets the targets the largest that fits; None where none fits.
    """
    fitting = [one for one in candidates if one.fits]
    working = [one for one in fitting if one.point]
    if not working:
        return max(fitting, key=lambda one: one.tensor, default=None)
    return min(working, key=lambda one: (one.gpus_for(peak), -one.rate_per_gpu))


def _replicas(wish: Wish, chosen: Candidate | None) -> Replicas | None:
    if chosen is None or chosen.point is None or chosen.speed is None or chosen.rate is None:
        return None
    now = replicas_for(wish.load.rate, chosen.point.rate)
    slots = max(1, int(chosen.pool.at_expected.expected))
    tokens = int(chosen.pool.tokens.expected) if chosen.pool.tokens else slots * wish.load.tokens
    at_work = point_at(chosen.speed, wish.load, wish.load.rate / now, chosen.point)
    points = (at_work, chosen.point)
    return Replicas(
        now=now,
        peak=replicas_for(wish.peak, chosen.point.rate),
        now_span=_span(wish.load.rate, chosen.rate),
        peak_span=_span(wish.peak, chosen.rate),
        at_work=at_work,
        need=need_of(chosen.speed, wish.load, slots, chosen.point, at_work),
        full_in_s=seconds_until_full(wish.load, points, now, wish.peak, tokens),
        spare=spare_for(wish.load, points, now, wish.peak, tokens),
    )


def _span(rate: float, carried: Estimate) -> tuple[int, int | None]:
    most = replicas_for(rate, carried.low) if carried.low else None
    return replicas_for(rate, carried.high), most


def least_ranks(
    config: Mapping[str, Any], wish: Wish, sizes: Iterable[int] = _RANKS
) -> Candidate | None:
    """The smallest tensor-parallel size that fits; None where none does, or can't be.

    Raises:
        ConfigError: An option that can't be right.
    """
    wish = replace(wish, gpu=as_engines_see(wish.gpu))
    model = architecture(config)
    precision = precision_of(config, wish.gpu, wish.weights)
    for tensor in sizes:
        try:
            found = sized(config, model, precision, wish, tensor)
        except ConfigError:
            continue
        if found.fits:
            return found
    return None
