"""The operations of a model's layers, one after the other, on one tensor-parallel rank."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from cacheaware.model.architecture import Architecture
from cacheaware.model.gpus import Gpu
from cacheaware.model.layers import Attention, Experts, FeedForward, Latent, Layer, StateMixer
from cacheaware.model.modules import Form, Module, Role, Split
from cacheaware.model.precision import HALF_BYTES, Precision
from cacheaware.model.roofline import VECTOR
from cacheaware.model.work import Operation, Part, Phase, Step
from cacheaware_sidecar.kv import Kind
from cacheaware_sidecar.kv import Layer as KvLayer

_NORM_FLOPS: Final = 4
"""Square, sum, scale by the root, gain: on each value."""
_ROPE_FLOPS: Final = 3
"""Two products and a sum on each value."""
_ACTIVATION_FLOPS: Final = 5
"""An exponential counted as four, and the gate's product."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How the model runs.

    Attributes:
        step: What is computed.
        precision: How weights are stored.
        gpu: On what.
        tensor: Tensor-parallel ranks.
    """

    step: Step
    precision: Precision
    gpu: Gpu
    tensor: int

    def share(self, total: int) -> int:
        """One rank's part, rounded up."""
        return -(-total // self.tensor)


def before_layers(model: Architecture, setting: Setting) -> Iterator[Operation]:
    """Embedding, and what comes with it."""
    tokens, hidden = setting.step.tokens, model.hidden
    tables = [one for one in model.before if one.form is Form.EMBEDDING]
    yield Operation(
        name=Part.EMBEDDING,
        part=Part.EMBEDDING,
        shape=f"[{tokens}] -> [{tokens}, {hidden}]",
        dtype=VECTOR,
        parameters=sum(one.parameters for one in tables),
        flops=0,
        weight_bytes=HALF_BYTES * tokens * sum(one.outputs for one in tables),
        activation_bytes=HALF_BYTES * tokens * hidden,
    )
    rest = [one for one in model.before if one.form is not Form.EMBEDDING]
    norms = [one for one in rest if one.form is Form.NORM]
    if norms:
        yield _norm(Part.NORM, Part.NORM, norms, [(tokens, hidden)])
    for one in rest:
        if one.is_linear:
            yield _product(setting, "project in", Part.EMBEDDING, [one], tokens)


def after_layers(model: Architecture, setting: Setting) -> Iterator[Operation]:
    """The last norm and the head, which sees the last token of each sequence alone."""
    norms = [one for one in model.after if one.form is Form.NORM]
    rows = setting.step.batch
    if norms or model.norm == "layer-bare":
        yield _norm("final norm", Part.NORM, norms, [(rows, model.hidden)])
    for one in model.after:
        if one.is_linear:
            name = "head" if one.outputs == model.vocabulary else "project out"
            yield _product(setting, name, Part.HEAD, [one], rows)


def layer_operations(
    model: Architecture, layer: Layer, kept: KvLayer, setting: Setting
) -> Iterator[Operation]:
    """The operations of one layer, in order.

    Args:
        model: The model.
        layer: The layer.
        kept: What it keeps in the KV cache, on one of the setting's ranks.
        setting: How it runs.
    """
    by_role = _by_role(layer)
    yield _layer_norms(model, layer, by_role(Role.NORM), setting.step.tokens)
    if isinstance(layer.mixer, Attention):
        yield from _attention(model, layer.mixer, kept, setting, by_role)
    elif isinstance(layer.mixer, Latent):
        yield from _latent(layer.mixer, kept, setting, by_role)
    elif isinstance(layer.mixer, StateMixer):
        yield from _state(layer.mixer, kept, setting, by_role)
    if isinstance(layer.feed, FeedForward):
        yield from _dense(layer.feed, setting, by_role(Role.FFN), Part.FFN)
    elif isinstance(layer.feed, Experts):
        yield from _experts(layer.feed, setting, by_role)


ByRole = Callable[[Role], list[Module]]


def _by_role(layer: Layer) -> ByRole:
    return lambda role: [one for one in layer.modules if one.role is role]


def _rank_shape(module: Module, setting: Setting) -> tuple[int, int]:
    """Inputs and outputs on one rank."""
    if module.split is Split.COLUMNS:
        return module.inputs, setting.share(module.outputs)
    if module.split is Split.ROWS:
        return setting.share(module.inputs), module.outputs
    return module.inputs, module.outputs


def _product(
    setting: Setting, name: str, part: Part, modules: Iterable[Module], rows: int
) -> Operation:
    """Matrix products of the same rows: their weights are read once.

    Products that follow on each other (a compressed query) are one row too.
    """
    parts = list(modules)
    return _shaped(setting, (name, part), [(one, _rank_shape(one, setting)) for one in parts], rows)


def _shaped(
    setting: Setting,
    named: tuple[str, Part],
    products: list[tuple[Module, tuple[int, int]]],
    rows: int,
) -> Operation:
    """The same, where the shapes on this rank are given."""
    parts = [one for one, _ in products]
    shapes = [shape for _, shape in products]
    stored = sum(
        a * b * setting.precision.bytes(one) for one, (a, b) in zip(parts, shapes, strict=True)
    )
    moved = sum({a for a, _ in shapes}) + sum(b for _, b in shapes)
    return Operation(
        name=named[0],
        part=named[1],
        shape=_shape(rows, shapes),
        dtype=setting.precision.computed(parts[0], setting.gpu),
        parameters=sum(one.parameters for one in parts),
        flops=2 * rows * sum(a * b for a, b in shapes),
        weight_bytes=round(stored),
        activation_bytes=HALF_BYTES * rows * moved,
        stored=setting.precision.weights(parts[0]),
    )


def _shape(rows: int, shapes: list[tuple[int, int]]) -> str:
    """`[10, 4096] x [4096, 12288]`: products of one input side by side, others in a row."""
    joined: list[list[int]] = []
    for inputs, outputs in shapes:
        if joined and joined[-1][0] == inputs:
            joined[-1][1] += outputs
        else:
            joined.append([inputs, outputs])
    factors = " ".join(f"[{a}, {b}]" for a, b in joined)
    return f"[{rows}, {joined[0][0]}] x {factors}"


def _norm(name: str, part: Part, modules: list[Module], shapes: list[tuple[int, int]]) -> Operation:
    """Norms of [rows, width] with the residual's sum: both are read, both are written."""
    values = sum(rows * width for rows, width in shapes)
    kinds = {shape: shapes.count(shape) for shape in shapes}
    parts = (
        (f"{count} x " if count > 1 else "") + f"[{rows}, {width}]"
        for (rows, width), count in kinds.items()
    )
    return Operation(
        name=name,
        part=part,
        shape=", ".join(parts),
        dtype=VECTOR,
        parameters=sum(one.parameters for one in modules),
        flops=_NORM_FLOPS * values,
        weight_bytes=HALF_BYTES * sum(one.parameters for one in modules),
        activation_bytes=4 * HALF_BYTES * values,
    )


def _layer_norms(model: Architecture, layer: Layer, norms: list[Module], tokens: int) -> Operation:
    """The norms of a layer; bare ones have no weights, one stands before each part."""
    bare = (layer.mixer is not None) + (layer.feed is not None)
    return _norm(Part.NORM, Part.NORM, norms, [(tokens, model.hidden)] * (len(norms) or bare))


def _vector(name: str, part: Part, shape: str, work: tuple[int, int], moved: int) -> Operation:
    """Values changed one by one: `work` is how many, and the operations on each."""
    values, each = work
    return Operation(
        name=name,
        part=part,
        shape=shape,
        dtype=VECTOR,
        parameters=0,
        flops=values * each,
        weight_bytes=0,
        activation_bytes=HALF_BYTES * moved,
    )


def _cache_write(name: str, tokens: int, values: int, kept: KvLayer) -> Operation:
    """Keys and values of new tokens go from activations to their slots in the cache."""
    return Operation(
        name=name,
        part=Part.CACHE,
        shape=f"[{tokens}, {values}]",
        dtype=VECTOR,
        parameters=0,
        flops=0,
        weight_bytes=0,
        activation_bytes=HALF_BYTES * tokens * values,
        kv_written=tokens * kept.bytes_per_token,
    )


def _suffix(kind: Kind) -> str:
    return "" if kind is Kind.FULL else f" ({kind})"


def _attention(
    model: Architecture, one: Attention, kept: KvLayer, setting: Setting, by_role: ByRole
) -> Iterator[Operation]:
    step, tokens = setting.step, setting.step.tokens
    heads, name = setting.share(one.heads), _suffix(one.kind)
    query, key = heads * one.key_size, kept.kv_heads * one.key_size
    value = kept.kv_heads * one.value_size
    wide = 2 * query if one.gated else query
    linears = [module for module in by_role(Role.QKV) if module.is_linear]
    widths = (wide, key, value) if len(linears) > 1 else (wide + key + value,)
    products = [(m, (model.hidden, width)) for m, width in zip(linears, widths, strict=False)]
    yield _shaped(setting, (f"qkv{name}", Part.QKV), products, tokens)
    if by_role(Role.QK_NORM):
        shapes = [(tokens * heads, one.key_size), (tokens * kept.kv_heads, one.key_size)]
        yield _norm(f"qk norm{name}", Part.QK_NORM, by_role(Role.QK_NORM), shapes)
    if model.positions == "rope" and not _is_without_positions(model, one):
        values = tokens * (query + key)
        shape = f"[{tokens}, {heads} + {kept.kv_heads}, {one.key_size}]"
        yield _vector(f"rope{name}", Part.ROPE, shape, (values, _ROPE_FLOPS), 2 * values)
    yield _cache_write(f"kv write{name}", tokens, key + value, kept)
    window = kept.window
    if one.kind is Kind.CHUNKED and window:
        pairs, seen = step.chunked_pairs(window), step.in_chunks(window)
    else:
        pairs, seen = step.pairs(window), step.in_view(window)
    scores = step.batch * heads * pairs
    out = heads * one.value_size
    yield Operation(
        name=f"attention{name}",
        part=Part.ATTENTION,
        shape=f"{step.batch} x {heads} x [{step.new}, {one.key_size}] x [{one.key_size}, {seen}]",
        dtype=setting.precision.half,
        parameters=sum(m.parameters for m in by_role(Role.QKV) if not m.is_linear),
        flops=2 * scores * (one.key_size + one.value_size),
        weight_bytes=0,
        activation_bytes=HALF_BYTES * tokens * (query + out),
        kv_read=step.batch * seen * kept.bytes_per_token,
        saved=2 * HALF_BYTES * scores,
    )
    yield _product(setting, f"output{name}", Part.OUTPUT, by_role(Role.OUTPUT), tokens)


def _is_without_positions(model: Architecture, one: Attention) -> bool:
    """Llama-4's full layers."""
    return model.layout == "llama4" and one.kind is Kind.FULL


def _latent(one: Latent, kept: KvLayer, setting: Setting, by_role: ByRole) -> Iterator[Operation]:
    """Multi-head latent attention.

    Prefill makes each head's keys and values from the latent vectors; decode takes the latent
    vectors as keys and values, with `kv_b_proj` folded into query and output.
    """
    step, tokens = setting.step, setting.step.tokens
    heads = setting.share(one.heads)
    yield _product(setting, "qkv (mla)", Part.QKV, by_role(Role.QKV), tokens)
    if norms := by_role(Role.QK_NORM):
        shapes = [(tokens, norm.outputs) for norm in norms]
        yield _norm("qk norm (mla)", Part.QK_NORM, norms, shapes)
    values = tokens * (heads + 1) * one.rope
    shape = f"[{tokens}, {heads} + 1, {one.rope}]"
    yield _vector("rope (mla)", Part.ROPE, shape, (values, _ROPE_FLOPS), 2 * values)
    yield _cache_write("kv write (mla)", tokens, one.rank + one.rope, kept)
    if indexer := by_role(Role.INDEXER):
        yield _indexer(one, kept, setting, indexer)
    absorbed = step.phase is Phase.DECODE
    key = one.rank + one.rope if absorbed else one.nope + one.rope
    value = one.rank if absorbed else one.value
    pairs = step.pairs(one.selected)  # a sparse indexer caps what a query sees, as a window does
    seen = step.in_view(None) if one.selected is None else min(step.in_view(None), one.selected)
    fresh = 0 if absorbed else step.batch * step.context
    expand = 2 * fresh * one.rank * heads * (one.nope + one.value)
    scores = step.batch * heads * pairs
    yield Operation(
        name="attention (mla)",
        part=Part.ATTENTION,
        shape=f"{step.batch} x {heads} x [{step.new}, {key}] x [{key}, {seen}]",
        dtype=setting.precision.half,
        parameters=0,
        flops=2 * scores * (key + value) + expand,
        weight_bytes=0,
        activation_bytes=HALF_BYTES * tokens * heads * (key + value),
        kv_read=step.batch * seen * kept.cache_bytes_per_token,
        saved=2 * HALF_BYTES * scores,
    )
    yield _product(setting, "output (mla)", Part.OUTPUT, by_role(Role.OUTPUT), tokens)


def _indexer(one: Latent, kept: KvLayer, setting: Setting, modules: list[Module]) -> Operation:
    """Projections, and a score of each cached token for each query."""
    step, linears = setting.step, [module for module in modules if module.is_linear]
    made = _product(setting, "indexer", Part.INDEXER, linears, step.tokens)
    scores = step.batch * step.pairs(None) * one.index_heads
    return replace(
        made,
        shape=f"{step.batch} x {one.index_heads} x [{step.new}, {one.index_size}] x "
        f"[{one.index_size}, {step.in_view(None)}]",
        parameters=sum(module.parameters for module in modules),
        flops=made.flops + 2 * scores * one.index_size,
        kv_read=step.batch * step.in_view(None) * kept.indexer_bytes_per_token,
    )


def _state(
    one: StateMixer, kept: KvLayer, setting: Setting, by_role: ByRole
) -> Iterator[Operation]:
    """Projections in, a recurrence over a constant state, and the projection out."""
    step, tokens = setting.step, setting.step.tokens
    modules = by_role(Role.STATE)
    linears = [module for module in modules if module.is_linear]
    into, out = linears[:-1], linears[-1:]
    yield _product(setting, f"qkv ({one.word})", Part.QKV, into, tokens)
    elements, channels = setting.share(one.elements), setting.share(one.channels)
    rest = sum(module.parameters for module in modules if not module.is_linear)
    each = step.batch * (kept.state_bytes or 0)
    yield Operation(
        name=f"state ({one.word})",
        part=Part.STATE,
        shape=f"{step.batch} x {elements} values, {step.new} tokens",
        dtype=VECTOR,
        parameters=rest,
        flops=tokens * (one.flops_per_element * elements + 2 * one.taps * channels),
        weight_bytes=HALF_BYTES * setting.share(rest),
        activation_bytes=HALF_BYTES * 2 * tokens * channels,
        kv_read=each,
        kv_written=each,
    )
    yield _product(setting, f"output ({one.word})", Part.OUTPUT, out, tokens)


def _dense(
    one: FeedForward, setting: Setting, modules: list[Module], part: Part
) -> Iterator[Operation]:
    tokens = setting.step.tokens
    if len(modules) == 1:
        yield _product(setting, part, part, modules, tokens)
        return
    size = setting.share(one.size)
    yield _product(setting, f"{part} up", part, modules[:-1], tokens)
    yield _activation(part, tokens * size, one.gated, f"[{tokens}, {size}]")
    yield _product(setting, f"{part} down", part, modules[-1:], tokens)


def _activation(of: Part, values: int, gated: bool, shape: str) -> Operation:
    moved, name = values * (3 if gated else 2), f"{of} act"
    return _vector(name, Part.ACTIVATION, shape, (values, _ACTIVATION_FLOPS), moved)


def _experts(one: Experts, setting: Setting, by_role: ByRole) -> Iterator[Operation]:
    tokens = setting.step.tokens
    router = by_role(Role.ROUTER)
    made = _product(setting, "router", Part.ROUTER, [m for m in router if m.is_linear], tokens)
    yield replace(made, parameters=sum(module.parameters for module in router))
    routed = by_role(Role.EXPERTS)
    around = [module for module in routed if module.copies == 1]
    experts = [module for module in routed if module.copies > 1]
    if around:
        yield _product(setting, "latent in and out", Part.EXPERTS, around, tokens)
    touched = touched_experts(one, tokens)
    yield _routed(one, setting, "experts up", experts[:-1], touched)
    size = setting.share(one.size)
    rows = tokens * one.top_k
    yield _activation(Part.EXPERTS, rows * size, one.gated, f"[{rows}, {size}]")
    yield _routed(one, setting, "experts down", experts[-1:], touched)
    shared = by_role(Role.SHARED_EXPERT)
    if shared:
        gates = [module for module in shared if module.outputs == 1]
        dense = [module for module in shared if module.outputs > 1]
        if gates:
            yield _product(setting, "shared expert gate", Part.SHARED, gates, tokens)
        feed = FeedForward(one.shared_size, one.gated)
        yield from _dense(feed, setting, dense, Part.SHARED)


def touched_experts(one: Experts, tokens: int) -> float:
    """Experts that at least one of the tokens goes to, on average, if the router spreads evenly.

    E (1 - (1 - k / E)^T). A skewed router touches fewer.
    """
    return one.count * (1 - (1 - one.top_k / one.count) ** tokens)


def _routed(
    one: Experts, setting: Setting, name: str, modules: list[Module], touched: float
) -> Operation:
    """Each token's rows go through its experts; each touched expert's weights are read once."""
    rows = setting.step.tokens * one.top_k
    made = _product(setting, name, Part.EXPERTS, modules, rows)
    left, weight = made.shape.split(" x ")
    return replace(
        made,
        shape=f"{left} x {touched:.0f} of {one.count} {weight}",
        weight_bytes=round(made.weight_bytes * touched),
    )
