"""Which kind of cache each layer has, from the many ways in which files tell it."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from cacheaware_sidecar.kv.errors import ConfigError, UnknownLayoutError, shown
from cacheaware_sidecar.kv.families import ENCODERS
from cacheaware_sidecar.kv.fields import Fields
from cacheaware_sidecar.kv.model import MOST_LAYERS, Model


class Kind(StrEnum):
    """What a layer keeps per request."""

    FULL = "full"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    MLA = "mla"
    STATE = "state"
    CROSS = "cross"
    ENCODER_ONLY = "encoder-only"
    NONE = "none"
    """No attention at all: an MLP, experts, a pruned layer."""
    SHARED = "shared"
    """It reads the KV of an earlier layer."""


Kinds = tuple[Kind, ...]

_BY_NAME: Final = {
    "full_attention": Kind.FULL,
    "attention": Kind.FULL,
    "full": Kind.FULL,
    "deepseek_sparse_attention": Kind.FULL,
    "sliding_attention": Kind.SLIDING,
    "chunked_attention": Kind.CHUNKED,
    "linear_attention": Kind.STATE,
    "mamba": Kind.STATE,
    "mamba2": Kind.STATE,
    "conv": Kind.STATE,
    "moe": Kind.NONE,
    "mlp": Kind.NONE,
}
_BY_SYMBOL: Final = {"*": Kind.FULL, "M": Kind.STATE, "E": Kind.NONE, "-": Kind.NONE}
_PATTERNED: Final = {"cohere2": 4, "exaone4": None, "gemma3": 6}
"""Types with one full layer after each n - 1 sliding ones, and the class default of n."""
_ALTERNATING: Final = frozenset({"gemma2", "gpt_oss"})
_STATES_ONLY: Final = frozenset({"mamba", "mamba2", "falcon_mamba"})
_OUTSPOKEN: Final = frozenset(
    [
        "bamba",
        "gemma3n",
        "gemma4",
        "granitemoehybrid",
        "kimi_linear",
        "mimo_v2_flash",
        "minimax_m1",
        "minimax_text_01",
        "mllama",
        "nemotron_h",
        "step3p5",
        "step3p7",
    ]
)
_INTERVALS: Final = {"qwen3_next": 4, "qwen3_5": 4, "qwen3_5_moe": 4}


def layer_kinds(model: Model) -> Kinds:
    """One kind per layer; the first source that the file has, decides (vLLM's rules).

    Raises:
        ConfigError: A list that does not have one entry per layer, or a missing field.
        UnknownLayoutError: A kind of layer that the rules don't cover.
    """
    kinds = next(kinds for source in _SOURCES if (kinds := source(model)))
    return _without_shared(model, kinds)


def _encoder(model: Model) -> Kinds | None:
    return (Kind.ENCODER_ONLY,) * model.layers if model.layout in ENCODERS else None


def _states_only(model: Model) -> Kinds | None:
    return (Kind.STATE,) * model.layers if model.layout in _STATES_ONLY else None


def _named(model: Model) -> Kinds | None:
    name = model.fields.first("layer_types", "layers_block_type")
    if name is None:
        return None
    spare = model.fields.integer("num_nextn_predict_layers", low=0, high=MOST_LAYERS) or 0
    return tuple(
        _kind(model.fields.path + name, entry, _BY_NAME)
        for entry in model.fields.entries(name, model.layers, spare)
    )


def _symbols(model: Model) -> Kinds | None:
    pattern = model.fields.text("hybrid_override_pattern")
    if not pattern:
        return None
    listed = Fields({"hybrid_override_pattern": list(pattern)}, model.fields.path)
    return tuple(
        _kind(f"{model.fields.path}hybrid_override_pattern", symbol, _BY_SYMBOL)
        for symbol in listed.entries("hybrid_override_pattern", model.layers)
    )


def _kind(field: str, entry: object, known: dict[str, Kind]) -> Kind:
    if not isinstance(entry, str):
        raise ConfigError(f"{field} has the entry {shown(entry)}: allowed are strings")
    if entry not in known:
        raise UnknownLayoutError(f"{field} has a layer of kind {shown(entry)}")
    return known[entry]


def _attention_types(model: Model) -> Kinds | None:
    """MiniMax: 1 = softmax attention, 0 = linear."""
    return _binary(model, "attn_type_list", zero=Kind.STATE, one=Kind.FULL)


def _hybrid_pattern(model: Model) -> Kinds | None:
    """MiMo-V2: 1 = sliding, 0 = full."""
    return _binary(model, "hybrid_layer_pattern", zero=Kind.FULL, one=Kind.SLIDING)


def _binary(model: Model, name: str, *, zero: Kind, one: Kind) -> Kinds | None:
    if not model.fields.has(name):
        return None
    flags = model.fields.integers(name, model.layers, high=1)
    return tuple(one if flag else zero for flag in flags)


def _linear_config(model: Model) -> Kinds | None:
    """Kimi: the layers with full attention, counted from 1; the others are linear."""
    linear = model.fields.child("linear_attn_config")
    if linear is None:
        return None
    full = _indices(linear, "full_attn_layers", 1, model.layers)
    return _pick(model.layers, lambda i: i + 1 in full, Kind.FULL, Kind.STATE)


def _attention_indices(model: Model) -> Kinds | None:
    """Bamba: the layers with attention, counted from 0; the others are Mamba's."""
    if not model.fields.has("attn_layer_indices"):
        return None
    full = _indices(model.fields, "attn_layer_indices", 0, model.layers - 1)
    return _pick(model.layers, lambda i: i in full, Kind.FULL, Kind.STATE)


def _attention_period(model: Model) -> Kinds | None:
    """Jamba: one attention layer in each period, the others are Mamba's."""
    period = model.fields.integer("attn_layer_period", high=MOST_LAYERS)
    if period is None and model.layout != "jamba":
        return None
    offset = model.fields.integer("attn_layer_offset", low=0, high=MOST_LAYERS)
    if period is None or offset is None:
        raise UnknownLayoutError("attn_layer_period and attn_layer_offset are needed, both")
    return _pick(model.layers, lambda i: i % period == offset, Kind.FULL, Kind.STATE)


def _full_interval(model: Model) -> Kinds | None:
    """Qwen3-Next: the last layer of each interval has full attention, the others are linear."""
    every = model.fields.integer("full_attention_interval", high=MOST_LAYERS)
    every = every or _INTERVALS.get(model.layout)
    if every is None:
        return None
    return _pick(model.layers, lambda i: (i + 1) % every == 0, Kind.FULL, Kind.STATE)


def _rope_layers(model: Model) -> Kinds | None:
    """Llama-4: layers with rotary positions attend inside a chunk; by default three of four."""
    if model.layout != "llama4" or not model.fields.has("attention_chunk_size"):
        return None
    if not model.fields.values.get("no_rope_layers"):
        return _pick(model.layers, lambda i: (i + 1) % 4 == 0, Kind.FULL, Kind.CHUNKED)
    flags = model.fields.integers("no_rope_layers", model.layers, high=1)
    return tuple(Kind.CHUNKED if flag else Kind.FULL for flag in flags)


def _window_pattern(model: Model) -> Kinds | None:
    if model.layout not in _PATTERNED:
        return None
    names = ("sliding_window_pattern", "_sliding_window_pattern")
    name = model.fields.first(*names)
    if name and isinstance(model.fields.values[name], str):
        return _lettered(model, model.fields.path + name, model.fields.values[name])
    every = model.fields.integer(*names, high=MOST_LAYERS) or _PATTERNED[model.layout]
    if every is None:
        return None
    return _pick(model.layers, lambda i: (i + 1) % every == 0, Kind.FULL, Kind.SLIDING)


def _lettered(model: Model, field: str, pattern: str) -> Kinds:
    """EXAONE-4: `LLLG`, repeated; L = local, G = global."""
    if not pattern or set(pattern) - set("LG"):
        raise UnknownLayoutError(f"{field} is {shown(pattern)}, not a pattern of L and G")
    return _pick(model.layers, lambda i: pattern[i % len(pattern)] == "G", Kind.FULL, Kind.SLIDING)


def _alternating(model: Model) -> Kinds | None:
    """Gemma-2 and gpt-oss: sliding, full, sliding, ..."""
    if model.layout not in _ALTERNATING:
        return None
    return _pick(model.layers, lambda i: i % 2 == 1, Kind.FULL, Kind.SLIDING)


def _cross(model: Model) -> Kinds | None:
    """Llama-3.2-Vision: layers that attend to the image."""
    if not model.fields.has("cross_attention_layers"):
        return None
    cross = _indices(model.fields, "cross_attention_layers", 0, model.layers - 1)
    return _pick(model.layers, lambda i: i in cross, Kind.CROSS, Kind.FULL)


def _undecided(model: Model) -> Kinds | None:
    """Types whose files name the kind of each layer: silence is no full attention."""
    if model.layout in _OUTSPOKEN:
        raise UnknownLayoutError("nothing tells which kind each layer is")
    return None


def _all_full(model: Model) -> Kinds:
    return (Kind.FULL,) * model.layers


_SOURCES: Final[tuple[Callable[[Model], Kinds | None], ...]] = (
    _encoder,
    _states_only,
    _named,
    _symbols,
    _attention_types,
    _hybrid_pattern,
    _linear_config,
    _attention_indices,
    _attention_period,
    _full_interval,
    _rope_layers,
    _window_pattern,
    _alternating,
    _cross,
    _undecided,
    _all_full,
)


def _pick(layers: int, chosen: Callable[[int], bool], yes: Kind, no: Kind) -> Kinds:
    return tuple(yes if chosen(index) else no for index in range(layers))


def _indices(fields: Fields, name: str, low: int, high: int) -> frozenset[int]:
    if not fields.has(name):
        raise ConfigError(f"{fields.path}{name} is missing: a list of layers is needed")
    entries = fields.array(name)
    return frozenset(
        Fields({name: entry}, fields.path).required(name, low=low, high=high) for entry in entries
    )


def _without_shared(model: Model, kinds: Kinds) -> Kinds:
    """Gemma-3n and 4: the last layers read the KV of earlier ones and keep none.

    Raises:
        UnknownLayoutError: Gemma-3n without the count (its class has a default of its own).
    """
    shared = model.fields.integer("num_kv_shared_layers", low=0, high=model.layers - 1)
    if shared is None and model.layout == "gemma3n":
        raise UnknownLayoutError("num_kv_shared_layers is missing")
    own = model.layers - (shared or 0)
    return kinds[:own] + (Kind.SHARED,) * (model.layers - own)
