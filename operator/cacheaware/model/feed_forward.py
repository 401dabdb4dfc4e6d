"""Feed-forward parts, dense or of experts: their dimensions and modules."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from cacheaware.model.layers import Experts, FeedForward
from cacheaware.model.modules import Module, Role, Under
from cacheaware.model.styles import Style, switched
from cacheaware_sidecar.kv import ConfigError
from cacheaware_sidecar.kv.errors import UnknownLayoutError
from cacheaware_sidecar.kv.fields import Fields
from cacheaware_sidecar.kv.model import Model

Made = tuple[FeedForward | Experts | None, tuple[Module, ...]]

_COUNT: Final = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_TOP_K: Final = ("num_experts_per_tok", "moe_top_k", "moe_topk", "num_experts_per_token")
_LLAMA_SIZES: Final = {"llama": 11008, "mistral": 14336}
"""Inner sizes of the text classes that multimodal files leave out."""


def feed_of(model: Model, style: Style, index: int, path: str) -> Made:
    """The feed-forward part of layer `index` and its modules, below `path`.

    Raises:
        UnknownLayoutError: Experts that no rule covers.
        ConfigError: A field that is missing or can't be right.
    """
    if model.layout == "nemotron_h":
        return _nemotron(model, style, index, path)
    if model.layout == "gemma4":
        return _gemma4(model, style, path)
    if model.fields.has("block_configs"):
        return _pruned(model, style, index, path)
    holder = _expert_fields(model)
    if holder is None or not _is_sparse(model, index):
        return _dense(model, style, path, inner_size(model, style), Role.FFN)
    return _experts(model, style, holder, path)


def inner_size(model: Model, style: Style) -> int:
    """Inner size of a dense feed-forward part."""
    if model.layout == "mpt":
        return (model.fields.integer("expansion_ratio") or 4) * model.hidden
    size = model.fields.integer(*style.size_names) if style.size_names else None
    if size is None and style.size_factor:
        return style.size_factor * model.hidden
    if size is None and model.defaults and model.layout in _LLAMA_SIZES:
        return _LLAMA_SIZES[model.layout]
    return size or model.fields.required(*style.size_names)


def _dense(model: Model, style: Style, path: str, size: int, role: Role) -> Made:
    place = f"{path}.{style.mlp}" if style.mlp else path
    bias = switched(model.fields, style.mlp_bias)
    modules = _three(Under(place, role), style, model.hidden, size, bias)
    return FeedForward(size, style.gate is not None), tuple(modules)


def _three(under: Under, style: Style, hidden: int, size: int, bias: bool) -> Iterator[Module]:
    """Gate, up and down; two where nothing gates or both are fused."""
    if style.gate == style.up:
        yield under.columns(style.up, hidden, 2 * size, bias)
    else:
        if style.gate:
            yield under.columns(style.gate, hidden, size, bias)
        yield under.columns(style.up, hidden, size, bias)
    yield under.rows(style.down, size, hidden, bias)


def _expert_fields(model: Model) -> Fields | None:
    """Where the file tells of experts; None for a dense model (granite writes 0).

    Raises:
        ConfigError: A type that has experts by its name, and no word of how many.
    """
    fields = model.fields.child("ffn_config") or model.fields
    if model.layout in _HAS_EXPERTS:
        fields.required(*_COUNT, low=0)
    count = fields.integer(*_COUNT, low=0)
    return fields if count and count > 1 else None


def _is_sparse(model: Model, index: int) -> bool:
    rule = _SPARSE.get(model.layout)
    if rule is None:
        raise UnknownLayoutError("nothing tells which layers have experts")
    return rule(model.fields, index)


def _every(_fields: Fields, _index: int) -> bool:
    return True


def _after_dense(fields: Fields, index: int) -> bool:
    """DeepSeek: the first layers are dense, then each `moe_layer_freq`-th has experts."""
    if fields.has("mlp_layer_types"):
        kinds = fields.array("mlp_layer_types")
        if index >= len(kinds):
            raise ConfigError(
                f"{fields.path}mlp_layer_types has {len(kinds)} entries: one per layer is needed"
            )
        return bool(kinds[index] == "sparse")
    listed = isinstance(fields.values.get("moe_layer_freq"), list)
    every = (None if listed else fields.integer("moe_layer_freq")) or 1
    dense = fields.integer("first_k_dense_replace", low=0) or 0
    return index >= dense and index % every == 0


def _stepped(fields: Fields, index: int) -> bool:
    """Qwen: each `decoder_sparse_step`-th layer, but for those listed."""
    listed = fields.array("mlp_only_layers") if fields.has("mlp_only_layers") else ()
    every = fields.integer("decoder_sparse_step") or 1
    return index not in listed and (index + 1) % every == 0


def _interleaved(fields: Fields, index: int) -> bool:
    """Llama-4."""
    if fields.values.get("moe_layers"):
        return index in fields.array("moe_layers")
    every = fields.integer("interleave_moe_layer_step") or 1
    return (index + 1) % every == 0


def _periodic(fields: Fields, index: int) -> bool:
    """Jamba."""
    offset = fields.required("expert_layer_offset", low=0)
    return index % fields.required("expert_layer_period") == offset


_SPARSE: Final[dict[str, Callable[[Fields, int], bool]]] = {
    **dict.fromkeys(
        ("mixtral", "phimoe", "gpt_oss", "olmoe", "dbrx", "minimax_m2", "granitemoehybrid"), _every
    ),
    **dict.fromkeys(
        (
            "deepseek",
            "deepseek_v2",
            "deepseek_v3",
            "deepseek_v32",
            "kimi_k2",
            "glm_moe_dsa",
            "glm4_moe",
        ),
        _after_dense,
    ),
    **dict.fromkeys(
        ("qwen2_moe", "qwen3_moe", "qwen3_vl_moe", "qwen3_next", "qwen3_5_moe"), _stepped
    ),
    "llama4": _interleaved,
    "jamba": _periodic,
}
_SIZED_BY_DENSE: Final = frozenset(
    ["mixtral", "phimoe", "gpt_oss", "olmoe", "llama4", "minimax_m2", "jamba", "granitemoehybrid"]
)
"""Types whose experts have the size that the file calls `intermediate_size`."""
_HAS_EXPERTS: Final = frozenset(
    ["mixtral", "phimoe", "gpt_oss", "olmoe", "minimax_m2", "qwen2_moe", "qwen3_moe",
     "qwen3_vl_moe", "qwen3_next", "qwen3_5_moe", "deepseek_v3", "deepseek_v32", "kimi_k2"]
)  # fmt: skip
"""Types that would be sized far too small, as dense ones, where their experts are not told."""
_GATED_SHARED: Final = frozenset(["qwen2_moe", "qwen3_next", "qwen3_5_moe"])
"""Types with a gate of one value in front of the shared expert."""


def _experts(model: Model, style: Style, holder: Fields, path: str) -> Made:
    count = holder.required(*_COUNT)
    top_k = holder.required(*_TOP_K, high=count)
    size = _expert_size(model, holder)
    shared = _shared_size(model, size)
    place = f"{path}.{style.moe}"
    modules = (
        Under(place, Role.ROUTER).linear(style.router, model.hidden, count, style.router_bias),
        *_routed(model, style, place, (count, top_k, size)),
        *_shared(model, style, path, shared),
    )
    return Experts(count, top_k, size, True, shared), modules


def _expert_size(model: Model, holder: Fields) -> int:
    if model.layout == "dbrx":
        return holder.required("ffn_hidden_size")
    if model.layout in _SIZED_BY_DENSE:
        return holder.required("intermediate_size")
    return holder.required("moe_intermediate_size")


def _shared_size(model: Model, size: int) -> int:
    fields = model.fields
    if model.layout == "llama4":
        return fields.required("intermediate_size")
    if model.layout == "granitemoehybrid":
        return fields.required("shared_intermediate_size", low=0)
    if told := fields.integer("shared_expert_intermediate_size", low=0):
        return told
    return (fields.integer("n_shared_experts", low=0) or 0) * size


def _routed(
    model: Model, style: Style, place: str, sizes: tuple[int, int, int]
) -> Iterator[Module]:
    count, used, size = sizes
    under, hidden = Under(f"{place}.experts.*", Role.EXPERTS), model.hidden
    gate, up, down = style.expert
    made = (
        under.columns(gate, hidden, size, style.expert_bias),
        under.columns(up, hidden, size, style.expert_bias),
        under.rows(down, size, hidden, style.expert_bias),
    )
    return (replace(one, copies=count, used=used) for one in made)


def _shared(model: Model, style: Style, path: str, size: int) -> Iterator[Module]:
    if not size:
        return
    hidden, place = model.hidden, f"{path}.{style.moe}"
    if model.layout in _GATED_SHARED:
        yield Under(place, Role.SHARED_EXPERT).linear("shared_expert_gate", hidden, 1)
    where = (
        f"{path}.shared_mlp" if model.layout == "granitemoehybrid" else f"{place}.{style.shared}"
    )
    yield from _three(Under(where, Role.SHARED_EXPERT), style, hidden, size, False)


def _gemma4(model: Model, style: Style, path: str) -> Made:
    """Gemma-4: an FFN, and in the sparse model experts beside it, which is like a shared one.

    Raises:
        UnknownLayoutError: The small models' embeddings per layer and wider layers.
    """
    fields, hidden = model.fields, model.hidden
    for name in ("hidden_size_per_layer_input", "use_double_wide_mlp"):
        if fields.values.get(name):
            raise UnknownLayoutError(f"{name} is set: weights of their own per layer")
    size = inner_size(model, style)
    if not fields.flag("enable_moe_block"):
        return _dense(model, style, path, size, Role.FFN)
    count = fields.required("num_experts")
    used = fields.required("top_k_experts", high=count)
    each = fields.required("moe_intermediate_size")
    router = Under(f"{path}.router", Role.ROUTER)
    return Experts(count, used, each, True, size), (
        router.linear("proj", hidden, count),
        router.values("scale", hidden),
        router.values("per_expert_scale", count),
        *_routed(model, style, path, (count, used, each)),
        *_three(Under(f"{path}.mlp", Role.SHARED_EXPERT), style, hidden, size, bias=False),
    )


_NEMOTRON_KINDS: Final = {"-": "mlp", "E": "moe", "M": "mamba", "*": "attention"}


def _nemotron(model: Model, style: Style, index: int, path: str) -> Made:
    """Nemotron-H: a layer is a mixer, an MLP or experts, one of them."""
    kind = _nemotron_kind(model, index)
    if kind == "mlp":
        return _dense(model, style, path, inner_size(model, style), Role.FFN)
    return _nemotron_experts(model, style, path) if kind == "moe" else (None, ())


def _nemotron_kind(model: Model, index: int) -> str:
    symbols = model.fields.text("hybrid_override_pattern")
    if symbols:
        return _NEMOTRON_KINDS[symbols[index]]
    name = model.fields.first("layers_block_type", "layer_types")
    if name is None:
        raise UnknownLayoutError("nothing tells which kind each layer is")
    return str(model.fields.array(name)[index])


def _nemotron_experts(model: Model, style: Style, path: str) -> Made:
    """Experts without a gate; in the larger models behind a projection to fewer features."""
    fields, hidden = model.fields, model.hidden
    count = fields.required("n_routed_experts")
    used = fields.required("num_experts_per_tok", high=count)
    size = fields.required("moe_intermediate_size")
    shared = fields.integer("moe_shared_expert_intermediate_size", low=0) or 0
    latent = fields.integer("moe_latent_size", low=0) or 0
    place = f"{path}.{style.moe}"
    routed, under = Under(f"{place}.experts.*", Role.EXPERTS), Under(place, Role.EXPERTS)
    projections = (
        under.linear("fc1_latent_proj", hidden, latent),
        under.linear("fc2_latent_proj", latent, hidden),
    )
    wide = latent or hidden
    return Experts(count, used, size, False, shared), (
        Under(place, Role.ROUTER).linear("gate", hidden, count),
        replace(routed.columns("up_proj", wide, size), copies=count, used=used),
        replace(routed.rows("down_proj", size, wide), copies=count, used=used),
        *(projections if latent else ()),
        *_three(Under(f"{place}.shared_experts", Role.SHARED_EXPERT), style, hidden, shared, False),
    )


def _pruned(model: Model, style: Style, index: int, path: str) -> Made:
    """Nemotron-NAS: each layer has its own factor, or no feed-forward part."""
    entry = model.fields.entries("block_configs", model.layers)[index]
    holder = Fields({"block": entry}, f"{model.fields.path}block_configs[{index}].")
    block = holder.child("block")
    ffn = block.child("ffn") if block else None
    if ffn is None:
        raise ConfigError(f"{holder.path}ffn is missing: an object is needed")
    if ffn.flag("no_op"):
        return None, ()
    if ffn.flag("replace_with_linear"):
        only = Under(f"{path}.mlp", Role.FFN).linear("linear_mlp", model.hidden, model.hidden)
        return FeedForward(model.hidden, False), (only,)
    if ffn.has("intermediate_size"):
        return _dense(model, style, path, ffn.required("intermediate_size"), Role.FFN)
    factor = ffn.values.get("ffn_mult")
    if not isinstance(factor, int | float) or isinstance(factor, bool) or not 0 < factor < 100:
        raise ConfigError(f"{ffn.path}ffn_mult is {factor!a}: allowed are numbers 0..100")
    size = int(2 * factor * model.hidden / 3)
    return _dense(model, style, path, -(-size // 256) * 256, Role.FFN)
