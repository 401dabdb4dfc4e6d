"""The training side: what gradients weigh on the network, and optimiser states on memory.

Gradients are averaged over data-parallel ranks by all-reduce in buckets. Sources: PyTorch
DistributedDataParallel (buckets of 25 MiB, the first of 1 MiB, filled from the last layer on; a
tensor is never cut); ZeRO (Rajbhandari et al. 2020), mixed precision with Adam.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from cacheaware.model.architecture import Architecture
from cacheaware.model.layers import Experts, Layer
from cacheaware.model.modules import Module, parameters
from cacheaware_sidecar.kv.errors import refusal
from cacheaware_sidecar.kv.fields import whole

GRADIENT_BYTES: Final = 2
BUCKET: Final = 25 * 2**20
FIRST_BUCKET: Final = 2**20
_WEIGHT, _GRADIENT, _OPTIMISER = 2, 2, 12
"""Bytes per parameter: 16-bit weight and gradient; fp32 weight, momentum and variance."""
MOST_RANKS: Final = 1_000_000
LEAST_GB_S: Final = 1e-6
MOST_GB_S: Final = 1e6
"""From a modem's to a thousand times a link's: beyond them, times are no numbers any more."""
TIMEOUT_FACTOR: Final = 10
"""A timeout below so many times the slowest exchange kills healthy steps of a busy network."""


@dataclass(frozen=True, slots=True)
class Ring:
    """Data-parallel ranks and what each can send.

    Attributes:
        ranks: How many.
        bandwidth_gb_s: Of one rank in one direction, 10^9 bytes a second.

    Raises:
        ConfigError: A number that can't be.
    """

    ranks: int
    bandwidth_gb_s: float

    def __post_init__(self) -> None:
        whole("dp", self.ranks, 1, MOST_RANKS)
        if not LEAST_GB_S <= self.bandwidth_gb_s <= MOST_GB_S:
            allowed = f"allowed are {LEAST_GB_S:g}..{MOST_GB_S:,.0f} GB/s"
            raise refusal("train-bandwidth", self.bandwidth_gb_s, allowed)

    def volume(self, payload: int) -> int:
        """Bytes that one rank sends for an all-reduce: 2 (n - 1) / n of the tensor."""
        return round(2 * (self.ranks - 1) / self.ranks * payload)

    def seconds(self, payload: int) -> float:
        """Of an all-reduce at that bandwidth; latency not counted."""
        return self.volume(payload) / (self.bandwidth_gb_s * 1e9)


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradients of one kind of layer.

    Attributes:
        kind: The kind: `GQA + FFN`, `embedding and head`.
        layers: How many layers are of it.
        payload: Bytes of the gradients of one.
        volume: Bytes that a rank sends for one.
        seconds: Of one.
    """

    kind: str
    layers: int
    payload: int
    volume: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Training:
    """What one training step exchanges and keeps.

    Attributes:
        ring: Between whom.
        gradients: By kind of layer.
        buckets: Bytes of each bucket, in the order in which they are sent.
        zero_bytes: Weights, gradients and optimiser states of one rank by ZeRO stage 0 to 3.
        sparse: Whether it has experts, whose gradients cross fewer ranks with expert parallelism.
    """

    ring: Ring
    gradients: tuple[Gradients, ...]
    buckets: tuple[int, ...]
    zero_bytes: tuple[int, ...]
    sparse: bool

    @property
    def payload(self) -> int:
        """Bytes of all gradients."""
        return sum(self.buckets)

    @property
    def seconds(self) -> float:
        """Of all buckets one after the other: what must hide behind the backward pass."""
        return self.ring.seconds(self.payload)

    @property
    def slowest_s(self) -> float:
        """Of the largest bucket: no timeout of the process group may be near it."""
        return self.ring.seconds(max(self.buckets))

    @property
    def least_timeout_s(self) -> float:
        """The least timeout for the group, by bandwidth alone; waiting for a slow rank adds."""
        return max(1.0, TIMEOUT_FACTOR * self.slowest_s)


def training(model: Architecture, ring: Ring) -> Training:
    """Gradients and memory of a model trained whole on each of the ring's ranks."""
    total = parameters(model.modules())
    return Training(
        ring=ring,
        gradients=tuple(_gradients(model, ring)),
        buckets=tuple(buckets(list(model.modules()))),
        zero_bytes=zero_bytes(total, ring.ranks),
        sparse=any(isinstance(layer.feed, Experts) for layer in model.layers),
    )


def zero_bytes(count: int, ranks: int) -> tuple[int, int, int, int]:
    """Bytes of one rank by ZeRO stage: states, then gradients, then weights are divided."""
    kept = _WEIGHT + _GRADIENT + _OPTIMISER
    return (
        kept * count,
        (_WEIGHT + _GRADIENT) * count + _share(_OPTIMISER * count, ranks),
        _WEIGHT * count + _share((_GRADIENT + _OPTIMISER) * count, ranks),
        _share(kept * count, ranks),
    )


def _share(total: int, ranks: int) -> int:
    return -(-total // ranks)


def buckets(modules: list[Module]) -> Iterator[int]:
    """Bytes of each bucket: tensors from the last to the first, closed when full."""
    limit, filled = FIRST_BUCKET, 0
    for module in reversed(modules):
        if size := GRADIENT_BYTES * module.parameters:
            filled += size
            if filled >= limit:
                yield filled
                limit, filled = BUCKET, 0
    if filled:
        yield filled


def _gradients(model: Architecture, ring: Ring) -> Iterator[Gradients]:
    counts: dict[tuple[str, int], int] = {}
    for layer in model.layers:
        key = _kind(layer), GRADIENT_BYTES * parameters(layer.modules)
        counts[key] = counts.get(key, 0) + 1
    yield _of("embedding and head", 1, _rest(model), ring)
    for (kind, payload), layers in counts.items():
        yield _of(kind, layers, payload, ring)


def _rest(model: Architecture) -> int:
    return GRADIENT_BYTES * parameters((*model.before, *model.after))


def _of(kind: str, layers: int, payload: int, ring: Ring) -> Gradients:
    return Gradients(kind, layers, payload, ring.volume(payload), ring.seconds(payload))


def _kind(layer: Layer) -> str:
    return " + ".join(_words(layer)) or "nothing"


def _words(layer: Layer) -> Iterable[str]:
    if layer.mixer is not None:
        yield layer.mixer.word
    if layer.feed is not None:
        yield "experts" if isinstance(layer.feed, Experts) else "FFN"
