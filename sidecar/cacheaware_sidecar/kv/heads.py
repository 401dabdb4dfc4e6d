"""Attention heads: how many, how many of them keep KV, and how wide they are."""

from dataclasses import dataclass
from typing import Final

from cacheaware_sidecar.kv.errors import ConfigError, UnknownLayoutError
from cacheaware_sidecar.kv.fields import Fields
from cacheaware_sidecar.kv.kinds import Kind
from cacheaware_sidecar.kv.model import MOST_HEADS, Model

WIDEST: Final = 1_000_000
_HEADS: Final = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "num_query_heads",
    "decoder_attention_heads",
)
_KV_HEADS: Final = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
    "n_kv_heads",
)
"""The order of vLLM's `get_total_num_kv_heads`, then the name of Mistral's own format."""
_HEAD_SIZES: Final = ("head_dim", "hidden_size_per_head", "attention_head_dim", "kv_channels")
_DEFAULT_KV_HEADS: Final = {
    "gemma2": 4,
    "gemma3": 4,
    "gpt_oss": 8,
    "ministral": 8,
    "mistral": 8,
    "mixtral": 8,
    "qwen2": 32,
    "qwen3": 32,
    "qwen3_moe": 4,
}
_DEFAULT_HEAD_DIM: Final = {"gemma": 256, "gemma2": 256, "gemma3": 256, "gpt_oss": 64, "qwen3": 128}
"""What the configuration classes of transformers fill in where it isn't multi-head's value."""


@dataclass(frozen=True, slots=True)
class HeadShape:
    """KV heads of one layer over all ranks, and the sizes of one head's K and V."""

    kv_heads: int
    key: int
    value: int


def attention_heads(model: Model) -> int | tuple[int, ...] | None:
    """Query heads: one number, or one per layer where the file lists them; None if not told."""
    name = model.fields.first(*_HEADS)
    if name and isinstance(model.fields.values[name], list | tuple):
        return model.fields.integers(name, model.layers, low=1, high=MOST_HEADS)
    if name is None and model.defaults:
        return model.defaults[2]
    return model.fields.integer(*_HEADS, high=MOST_HEADS)


def one_head_count(model: Model) -> int:
    """Query heads where the rules need exactly one number."""
    heads = attention_heads(model)
    if isinstance(heads, int):
        return heads
    return model.fields.required(*_HEADS, high=MOST_HEADS)


def head_dim(model: Model) -> int:
    """Width of one head: an explicit field, else hidden size over heads.

    Raises:
        ConfigError: Neither is given, or the hidden size is no multiple of the heads.
    """
    if size := model.fields.integer(*_HEAD_SIZES, low=0, high=WIDEST):
        return size
    if model.layout in _DEFAULT_HEAD_DIM and "head_dim" not in model.fields.values:
        return _DEFAULT_HEAD_DIM[model.layout]
    heads, hidden = one_head_count(model), model.hidden
    if hidden % heads:
        raise ConfigError(
            f"{model.fields.path}head_dim is missing and hidden size {hidden} is no multiple of "
            f"{heads} heads: head_dim is needed"
        )
    return hidden // heads


def head_shapes(model: Model, kinds: tuple[Kind, ...]) -> tuple[HeadShape, ...]:
    """The KV heads and head sizes of every layer, in order."""
    if model.layout == "gemma4":
        return _gemma4(model, kinds)
    if model.layout == "mimo_v2_flash":
        return _mimo_v2(model, kinds)
    key, value = _sizes(model)
    return tuple(HeadShape(count, key, value) for count in kv_heads(model))


def declared_kv_heads(model: Model) -> tuple[int, ...] | None:
    """DeciLM's own list, where vLLM gives every layer the largest entry instead."""
    name = "num_key_value_heads_per_layer"
    if model.layout == "deci" and model.fields.has(name):
        return model.fields.integers(name, model.layers, low=1, high=MOST_HEADS)
    return None


def kv_heads(model: Model) -> tuple[int, ...]:
    """KV heads of every layer, over all ranks; 0 where a layer's attention was pruned away."""
    if model.fields.has("block_configs"):
        return _pruned(model)
    if declared := declared_kv_heads(model):
        return (max(declared),) * model.layers
    name = model.fields.first(*_KV_HEADS)
    if name and isinstance(model.fields.values[name], list | tuple):
        return model.fields.integers(name, model.layers, low=1, high=MOST_HEADS)
    return (_checked(model, _one_kv_count(model)),) * model.layers


def assumes_multi_head(model: Model) -> bool:
    """Whether nothing tells the KV heads, so that each head is taken to have its own."""
    return model.layout not in _EXCEPTIONS and not (
        model.fields.first(*_KV_HEADS, "num_key_value_heads_per_layer", "block_configs")
        or _class_default(model)
    )


def _one_kv_count(model: Model) -> int:
    exception = _EXCEPTIONS.get(model.layout)
    if exception and (count := exception(model)):
        return count
    count = model.fields.integer(*_KV_HEADS, high=MOST_HEADS)
    return count or _class_default(model) or one_head_count(model)


def _class_default(model: Model) -> int | None:
    """Only for a missing field: null means multi-head in these classes too."""
    missing = "num_key_value_heads" not in model.fields.values
    return _DEFAULT_KV_HEADS.get(model.layout) if missing else None


def _checked(model: Model, count: int) -> int:
    heads = attention_heads(model)
    if isinstance(heads, int) and (count > heads or heads % count):
        raise ConfigError(
            f"{model.fields.path}{model.fields.first(*_KV_HEADS) or 'KV heads'} is {count}: "
            f"allowed are divisors of the {heads} attention heads"
        )
    return count


def _falcon(model: Model) -> int | None:
    """Multi-query unless the new decoder is on; `num_kv_heads` of the file is then wrong."""
    if model.fields.flag("new_decoder_architecture"):
        return None
    return one_head_count(model) if model.fields.flag("multi_query") is False else 1


def _gpt_bigcode(model: Model) -> int:
    return one_head_count(model) if model.fields.flag("multi_query") is False else 1


def _chatglm(model: Model) -> int | None:
    return None if model.fields.flag("multi_query_attention") else one_head_count(model)


def _mpt(model: Model) -> int | None:
    attention = model.fields.child("attn_config")
    if attention is None:
        return None
    if attention.text("attn_type") == "multiquery_attention":
        return 1
    return attention.integer("kv_n_heads", high=MOST_HEADS)


def _dbrx(model: Model) -> int:
    attention = model.fields.child("attn_config") or Fields({}, f"{model.fields.path}attn_config.")
    return attention.required("kv_n_heads", high=MOST_HEADS)


_EXCEPTIONS: Final = {
    "chatglm": _chatglm,
    "dbrx": _dbrx,
    "falcon": _falcon,
    "gpt_bigcode": _gpt_bigcode,
    "mpt": _mpt,
}


def _pruned(model: Model) -> tuple[int, ...]:
    """Nemotron-NAS: `block_configs` says for each layer how many heads share one KV head."""
    entries = model.fields.entries("block_configs", model.layers)
    return tuple(
        _block_kv_heads(model, Fields({"block": entry}, f"{model.fields.path}block_configs[{i}]."))
        for i, entry in enumerate(entries)
    )


def _block_kv_heads(model: Model, holder: Fields) -> int:
    block = holder.child("block")
    attention = block.child("attention") if block else None
    if attention is None:
        raise ConfigError(f"{holder.path}attention is missing: an object is needed")
    if attention.flag("no_op") or attention.flag("replace_with_linear"):
        return 0
    if attention.has("window_length") or attention.has("num_sink_tokens"):
        raise UnknownLayoutError(f"{holder.path}attention has a window or sink of its own")
    if count := attention.integer("num_key_value_heads", high=MOST_HEADS):
        return _checked(model, count)
    heads, group = one_head_count(model), attention.required("n_heads_in_group", high=MOST_HEADS)
    if heads % group:
        raise ConfigError(
            f"{attention.path}n_heads_in_group is {group}: allowed are divisors of {heads} heads"
        )
    return heads // group


def _sizes(model: Model) -> tuple[int, int]:
    """Sizes of K and V of one head where all layers are alike."""
    if model.layout == "minicpm3":
        nope = model.fields.required("qk_nope_head_dim", high=WIDEST)
        size = nope + model.fields.required("qk_rope_head_dim", high=WIDEST)
        return size, size
    size = head_dim(model)
    value = model.fields.integer("v_head_dim", low=0, high=WIDEST)
    if value and value != size:
        raise UnknownLayoutError(f"v_head_dim {value} beside head size {size}")
    return size, size


def _gemma4(model: Model, kinds: tuple[Kind, ...]) -> tuple[HeadShape, ...]:
    """Sliding layers as usual; global layers have heads of their own, and keep V beside K."""
    sliding = HeadShape(kv_heads(model)[0], head_dim(model), head_dim(model))
    size = model.fields.required("global_head_dim", high=WIDEST)
    count = model.fields.integer("num_global_key_value_heads", high=MOST_HEADS)
    full = HeadShape(_checked(model, count or sliding.kv_heads), size, size)
    return tuple(sliding if kind is Kind.SLIDING else full for kind in kinds)


def _mimo_v2(model: Model, kinds: tuple[Kind, ...]) -> tuple[HeadShape, ...]:
    """K and V differ in width, and sliding layers have other heads than full ones."""
    fields = model.fields
    full = HeadShape(
        kv_heads(model)[0], head_dim(model), fields.required("v_head_dim", high=WIDEST)
    )
    sliding = HeadShape(
        fields.required("swa_num_key_value_heads", high=MOST_HEADS),
        fields.required("swa_head_dim", high=WIDEST),
        fields.required("swa_v_head_dim", high=WIDEST),
    )
    return tuple(sliding if kind is Kind.SLIDING else full for kind in kinds)
