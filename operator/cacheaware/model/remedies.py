"""Which known optimisation acts on a row of the walk, and why."""

from collections.abc import Iterator
from dataclasses import dataclass

from cacheaware.model.architecture import Architecture
from cacheaware.model.gpus import Gpu
from cacheaware.model.layers import Attention
from cacheaware.model.precision import BYTES, HALF_BYTES
from cacheaware.model.roofline import Bound
from cacheaware.model.units import byte_size
from cacheaware.model.work import Operation, Part, Phase, Step

SIXTEEN_BIT = frozenset({"bfloat16", "float16"})
_LINEAR = frozenset({Part.QKV, Part.OUTPUT, Part.FFN, Part.SHARED, Part.HEAD})


@dataclass(frozen=True, slots=True)
class Remedy:
    """An optimisation.

    Attributes:
        id: Stable, for programs.
        text: What it does to this row, with numbers where they are known.
    """

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Around:
    """What the operations of a walk have in common.

    Attributes:
        step: What is computed.
        gpu: On what.
        model: The model.
        kv_dtype: How the KV cache is stored.
    """

    step: Step
    gpu: Gpu
    model: Architecture
    kv_dtype: str


def remedies(operation: Operation, bound: Bound, around: Around) -> tuple[Remedy, ...]:
    """What acts on this operation, the first the most."""
    step, gpu = around.step, around.gpu
    if operation.part is Part.ATTENTION:
        return tuple(_on_attention(operation, bound, around))
    if operation.part is Part.STATE:
        return tuple(_on_state(step))
    if operation.part is Part.EXPERTS:
        return tuple(_on_experts(operation, bound))
    if operation.part in _LINEAR:
        return tuple(_on_product(operation, bound, step, gpu))
    return tuple(_on_small(operation))


def _on_attention(operation: Operation, bound: Bound, around: Around) -> Iterator[Remedy]:
    step = around.step
    if step.phase is Phase.PREFILL:
        yield Remedy(
            "flash-attention",
            f"FlashAttention keeps {byte_size(operation.saved)} of scores a layer on chip",
        )
        yield Remedy("prefix-caching", "prefix caching skips what is cached")
        if bound is Bound.COMPUTE:
            yield Remedy("fp8-attention", "FP8 attention kernels")
        return
    if around.kv_dtype in SIXTEEN_BIT:
        half = byte_size(operation.kv_read / 2)
        yield Remedy("kv-quantisation", f"FP8 KV: {half} less to read in a layer")
    shared = _shared_heads(around.model)
    if shared > 1:
        yield Remedy("gqa", f"GQA already reads {shared:g}x less than MHA")
    elif shared == 1:
        yield Remedy("gqa", "MHA: a model with GQA would read less")
    yield Remedy("paged-kv", "paged KV lets the batch grow")
    yield Remedy("split-kv", "split KV fills the GPU at small batches")


def _shared_heads(model: Architecture) -> float:
    """Query heads for each KV head in the first layer with heads; 0 where there is none."""
    for layer in model.layers:
        if isinstance(layer.mixer, Attention):
            return layer.mixer.heads / layer.mixer.kv_heads
    return 0


def _on_state(step: Step) -> Iterator[Remedy]:
    if step.phase is Phase.PREFILL:
        yield Remedy("chunked-scan", "a chunked scan moves this work to matrix units")
    else:
        yield Remedy("state-dtype", "a 16-bit state; its size does not grow with the context")


def _on_experts(operation: Operation, bound: Bound) -> Iterator[Remedy]:
    yield Remedy("grouped-gemm", "grouped GEMM over the touched experts")
    if bound is Bound.MEMORY:
        yield Remedy("continuous-batching", "a larger batch: more tokens per expert")
        yield from _fewer_bits(operation)
    yield Remedy("expert-parallel", "expert parallelism")


def _on_product(operation: Operation, bound: Bound, step: Step, gpu: Gpu) -> Iterator[Remedy]:
    if bound is Bound.MEMORY:
        rows = ridge_rows(operation, gpu)
        yield Remedy("continuous-batching", f"batching: free up to about {rows:,} tokens a step")
        yield from _fewer_bits(operation)
        if step.phase is Phase.DECODE:
            yield Remedy("speculative-decoding", "speculative decoding: several tokens per read")
        return
    if operation.dtype not in ("fp8", "fp4") and "fp8" in gpu.tflops:
        gain = gpu.tflops["fp8"] / gpu.tflops[operation.dtype]
        yield Remedy("fp8-gemm", f"FP8 GEMM: {gain:.2g}x the FLOPs")
    yield Remedy("tensor-parallel", "TP divides it")
    if step.phase is Phase.PREFILL:
        yield Remedy("pd-split", "chunked prefill or P/D split keeps it off decode")


def ridge_rows(operation: Operation, gpu: Gpu) -> int:
    """Tokens in a step from which on a large product is bound by arithmetic.

    Each weight of b bytes serves 2 FLOPs a token: rows = ridge x b / 2.
    """
    ridge = gpu.ridge(operation.dtype)
    return 0 if ridge is None else round(ridge * _stored(operation) / 2)


def _fewer_bits(operation: Operation) -> Iterator[Remedy]:
    stored = _stored(operation)
    if stored >= HALF_BYTES:
        yield Remedy("weight-quantisation", "weight quantisation: 8 bit halves, 4 bit quarters")
    elif stored == 1:
        yield Remedy("weight-quantisation", "8-bit weights already; 4 bit halves again")


def _stored(operation: Operation) -> float:
    """Bytes per weight."""
    return BYTES[operation.stored] if operation.stored else HALF_BYTES


_SMALL: dict[Part, Remedy] = {
    Part.EMBEDDING: Remedy("none", "a look-up"),
    Part.NORM: Remedy("fused-norm", "fused with the residual's sum (and quantisation)"),
    Part.QK_NORM: Remedy("fused-norm", "fused with RoPE"),
    Part.ROPE: Remedy("fused-rope", "fused with the write to the KV cache"),
    Part.CACHE: Remedy("fused-rope", "fused with RoPE; FP8 KV halves it"),
    Part.ACTIVATION: Remedy("fused-activation", "fused with the gate's product (and quantisation)"),
    Part.ROUTER: Remedy("fused-router", "fused top-k"),
    Part.INDEXER: Remedy("fp8-indexer", "FP8 index keys; top-k kernel"),
}


def _on_small(operation: Operation) -> Iterator[Remedy]:
    yield _SMALL[operation.part]
