"""One step of a request through a model, module by module, under the roofline of a GPU."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cacheaware.model.architecture import Architecture, architecture
from cacheaware.model.collectives import Collective, collectives, could_share_a_sum
from cacheaware.model.gpus import Gpu
from cacheaware.model.layer_work import Setting, after_layers, before_layers, layer_operations
from cacheaware.model.layers import Experts
from cacheaware.model.parameters import Parameters, count_parameters
from cacheaware.model.precision import AUTO, Precision, precision_of
from cacheaware.model.remedies import Around, Remedy, remedies
from cacheaware.model.roofline import VECTOR, Bound, roof
from cacheaware.model.work import Operation, Step
from cacheaware_sidecar.kv import Geometry, Parallel, geometry


@dataclass(frozen=True, slots=True)
class Row:
    """Equal operations of several layers.

    Attributes:
        operation: One of them.
        times: How many there are.
        seconds: Of all together, at the roofline.
        bound: What they wait for.
        share: Of the step's time, exchanges included.
        remedies: Optimisations that act on them.
    """

    operation: Operation
    times: int
    seconds: float
    bound: Bound
    share: float
    remedies: tuple[Remedy, ...]


@dataclass(frozen=True, slots=True)
class Walk:
    """A step.

    Attributes:
        model: The model.
        parameters: Its counts.
        step: What is computed.
        gpu: On what.
        precision: How weights are stored.
        kept: The KV cache of one rank.
        rows: The operations of one rank, in order; with pipeline stages one after the other.
        collectives: The exchanges between ranks.
        weight_bytes: Stored weights of one rank of a stage of average size.
        notes: What a person should know, one line each.
    """

    model: Architecture
    parameters: Parameters
    step: Step
    gpu: Gpu
    precision: Precision
    kept: Geometry
    rows: tuple[Row, ...]
    collectives: tuple[Collective, ...]
    weight_bytes: int
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """Of the step: operations and exchanges one after the other, each through memory."""
        return sum(row.seconds for row in self.rows) + sum(one.total_s for one in self.collectives)

    @property
    def least_seconds(self) -> float:
        """No engine is faster: all arithmetic, or weights and KV read and written once.

        Activations are taken to stay on the chip, exchanges to hide behind the rest.
        """
        arithmetic = sum(
            row.times * roof(row.operation, self.gpu).compute_s
            for row in self.rows
            if row.operation.dtype != VECTOR
        )
        compulsory = sum(
            row.times * (row.operation.moved - row.operation.activation_bytes) for row in self.rows
        )
        return max(arithmetic, compulsory / (self.gpu.bandwidth_gb_s * 1e9))

    @property
    def flops(self) -> int:
        """Of one rank of every stage."""
        return sum(row.times * row.operation.flops for row in self.rows)

    @property
    def moved(self) -> int:
        """Bytes to and from memory, of one rank of every stage."""
        return sum(row.times * row.operation.moved for row in self.rows)

    @property
    def kv_written(self) -> int:
        """Bytes of KV cache written by one rank of every stage."""
        return sum(row.times * row.operation.kv_written for row in self.rows)

    @property
    def kv_read(self) -> int:
        """Bytes of KV cache read by one rank of every stage."""
        return sum(row.times * row.operation.kv_read for row in self.rows)

    @property
    def bound(self) -> Bound:
        """Where most of the operations' time goes."""
        waits = sum(row.seconds for row in self.rows if row.bound is Bound.MEMORY)
        return Bound.MEMORY if 2 * waits >= sum(row.seconds for row in self.rows) else Bound.COMPUTE

    @property
    def tokens_per_s(self) -> float:
        """Tokens computed per second by one replica."""
        return self.step.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class Served:
    """How the model is served.

    Attributes:
        gpu: On what.
        parallel: Tensor and pipeline sizes.
        kv_dtype: As the engine's `--kv-cache-dtype`.
        weights: The storage of linear layers; `auto` for what the file says.
    """

    gpu: Gpu
    parallel: Parallel
    kv_dtype: str = AUTO
    weights: str = AUTO


def walk(config: Mapping[str, Any], step: Step, served: Served) -> Walk:
    """Walk one step through a model.

    Raises:
        UnknownArchitectureError: No rule covers the model.
        ConfigError: A field or size that can't be right.
    """
    model = architecture(config)
    kept = geometry(config, served.parallel, served.kv_dtype)
    precision = precision_of(config, served.gpu, served.weights)
    setting = Setting(step, precision, served.gpu, served.parallel.tensor)
    counted = merged(operations(model, kept, setting))
    exchanged = tuple(
        collectives(model, step, served.gpu, served.parallel.tensor, served.parallel.pipeline)
    )
    return Walk(
        model=model,
        parameters=count_parameters(model),
        step=step,
        gpu=served.gpu,
        precision=precision,
        kept=kept,
        rows=_rows(counted, exchanged, Around(step, served.gpu, model, kept.kv_dtype)),
        collectives=exchanged,
        weight_bytes=stored_bytes(model, precision) // _ranks(served.parallel),
        notes=tuple(_notes(model, kept, precision, step, served)),
    )


def _ranks(parallel: Parallel) -> int:
    return parallel.tensor * parallel.pipeline


def operations(model: Architecture, kept: Geometry, setting: Setting) -> Iterator[Operation]:
    """All operations of a step on one rank, in order."""
    yield from before_layers(model, setting)
    for layer, cache in zip(model.layers, kept.layer_list, strict=True):
        yield from layer_operations(model, layer, cache, setting)
    yield from after_layers(model, setting)


def merged(every: Iterator[Operation]) -> dict[Operation, int]:
    """Equal operations with their count, in the order in which they first come."""
    counts: dict[Operation, int] = {}
    for operation in every:
        counts[operation] = counts.get(operation, 0) + 1
    return counts


def _rows(
    counted: Mapping[Operation, int],
    exchanged: tuple[Collective, ...],
    around: Around,
) -> tuple[Row, ...]:
    roofs = {operation: roof(operation, around.gpu) for operation in counted}
    total = sum(roofs[operation].seconds * times for operation, times in counted.items())
    total += sum(one.total_s for one in exchanged)
    return tuple(
        Row(
            operation=operation,
            times=times,
            seconds=roofs[operation].seconds * times,
            bound=roofs[operation].bound,
            share=roofs[operation].seconds * times / total,
            remedies=remedies(operation, roofs[operation].bound, around),
        )
        for operation, times in counted.items()
    )


def stored_bytes(model: Architecture, precision: Precision) -> int:
    """Bytes of all weights as they are stored."""
    return round(sum(one.parameters * precision.bytes(one) for one in model.modules()))


def _notes(
    model: Architecture, kept: Geometry, precision: Precision, step: Step, served: Served
) -> Iterator[str]:
    yield from precision.notes
    yield from kept.warnings
    longest = step.context + step.new
    if model.max_positions and longest > model.max_positions:
        yield f"{longest:,} tokens are more than the model's {model.max_positions:,} positions"
    weights = stored_bytes(model, precision) / _ranks(served.parallel) / 2**30
    if weights > served.gpu.memory_gib:
        yield (
            f"the weights take {weights:,.1f} GiB a rank, a {served.gpu.name} has "
            f"{served.gpu.memory_gib:g} GiB: raise TP or PP"
        )
    if any(isinstance(layer.feed, Experts) for layer in model.layers):
        yield "experts: a router that spreads evenly is assumed; a skewed one touches fewer"
    if served.parallel.tensor > 1 and could_share_a_sum(model):
        yield "attention and FFN stand side by side: an engine may do one all-reduce for both"
    if served.parallel.pipeline > 1:
        yield (
            "pipeline stages run one after the other for one step and overlap over steps; sends "
            "are timed at the GPU's link, a network between nodes is slower"
        )
