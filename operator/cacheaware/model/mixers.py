"""Attention and state layers: their dimensions and modules."""

from collections.abc import Iterator
from typing import Final

from cacheaware.model.layers import Attention, Latent, StateMixer
from cacheaware.model.modules import Module, Role, Under
from cacheaware.model.styles import Style, switched
from cacheaware_sidecar.kv import Kind
from cacheaware_sidecar.kv import Layer as KvLayer
from cacheaware_sidecar.kv.errors import UnknownLayoutError
from cacheaware_sidecar.kv.families import SPARSE_INDEXED
from cacheaware_sidecar.kv.heads import one_head_count
from cacheaware_sidecar.kv.model import Model

Mixer = Attention | Latent | StateMixer
Made = tuple[Mixer | None, tuple[Module, ...]]

_LATENT_WEIGHTS: Final = frozenset({"minicpm3"})
"""Types with MLA's weights whose cache keeps heads."""
_GATED: Final = frozenset({"qwen3_next", "qwen3_5", "qwen3_5_moe"})
_WITHOUT: Final = frozenset({Kind.NONE})
_WITH_HEADS: Final = frozenset({Kind.FULL, Kind.SLIDING, Kind.CHUNKED})


def mixer_of(model: Model, style: Style, kept: KvLayer, path: str) -> Made:
    """The mixer of one layer and its modules, below `path`.

    Raises:
        UnknownLayoutError: A kind of layer whose weights no rule covers.
        ConfigError: A field that can't be right.
    """
    if kept.kind in _WITHOUT:
        return None, ()
    if kept.kind is Kind.STATE:
        return _state(model, Under(f"{path}.{style.state}", Role.STATE))
    place = f"{path}.{style.attention}"
    if kept.kind is Kind.MLA or model.layout in _LATENT_WEIGHTS:
        latent = _latent_sizes(model, kept)
        return latent, tuple(_latent_modules(model, style, latent, place, kept))
    if kept.kind not in _WITH_HEADS:
        raise UnknownLayoutError(f"the weights of {kept.kind} layers are not known")
    attention = Attention(
        kept.kind,
        one_head_count(model),
        kept.total_kv_heads,
        kept.key_size,
        kept.value_size,
        kept.window,
        model.layout in _GATED,
    )
    return attention, tuple(_attention_modules(model, style, attention, place))


def _attention_modules(
    model: Model, style: Style, attention: Attention, path: str
) -> Iterator[Module]:
    hidden, under = model.hidden, Under(path, Role.QKV)
    query = attention.heads * attention.key_size
    key = attention.kv_heads * attention.key_size
    value = attention.kv_heads * attention.value_size
    wide = 2 * query if attention.gated else query
    bias = switched(model.fields, style.qkv_bias)
    widths = (wide, key, value) if len(style.qkv) > 1 else (wide + key + value,)
    names = style.qkv[:2] if _value_is_key(model, attention) else style.qkv
    for name, width in zip(names, widths, strict=False):
        yield under.columns(name, hidden, width, bias)
    yield from _head_norms(model, style, attention, path)
    if style.sinks:
        yield Under(path, Role.QKV).values("sinks", attention.heads)
    out = attention.heads * attention.value_size
    output_bias = switched(model.fields, style.output_bias)
    yield Under(path, Role.OUTPUT).rows(style.output, out, hidden, output_bias)


def _value_is_key(model: Model, attention: Attention) -> bool:
    """Gemma-4: full layers take the key's projection for the value, too."""
    return attention.kind is Kind.FULL and model.fields.flag("attention_k_eq_v") is True


def _head_norms(model: Model, style: Style, attention: Attention, path: str) -> Iterator[Module]:
    if not switched(model.fields, style.qk_norm):
        return
    counts = (attention.heads, attention.kv_heads) if style.qk_norm_width == "all" else (1, 1)
    for name, count in zip(style.qk_norm_names, counts, strict=True):
        width = count * attention.key_size
        yield Under(path, Role.QK_NORM).norm(name, width, style.norm == "layer")


def _latent_sizes(model: Model, kept: KvLayer) -> Latent:
    fields = model.fields
    sparse = model.layout in SPARSE_INDEXED
    return Latent(
        heads=one_head_count(model),
        query_rank=fields.integer("q_lora_rank"),
        rank=fields.required("kv_lora_rank"),
        nope=fields.required("qk_nope_head_dim"),
        rope=fields.required("qk_rope_head_dim", low=0),
        value=fields.integer("v_head_dim") or fields.required("qk_nope_head_dim"),
        selected=fields.required("index_topk") if sparse else None,
        index_heads=fields.required("index_n_heads") if kept.indexer_bytes_per_token else 0,
        index_size=fields.required("index_head_dim") if kept.indexer_bytes_per_token else 0,
    )


def _latent_modules(
    model: Model, style: Style, latent: Latent, path: str, kept: KvLayer
) -> Iterator[Module]:
    hidden, under = model.hidden, Under(path, Role.QKV)
    bias = switched(model.fields, style.qkv_bias)
    query = latent.heads * (latent.nope + latent.rope)
    if latent.query_rank is None:
        yield under.columns("q_proj", hidden, query)
    else:
        yield under.linear("q_a_proj", hidden, latent.query_rank, bias)
        yield Under(path, Role.QK_NORM).norm("q_a_layernorm", latent.query_rank)
        yield under.columns("q_b_proj", latent.query_rank, query)
    yield under.linear("kv_a_proj_with_mqa", hidden, latent.rank + latent.rope, bias)
    yield Under(path, Role.QK_NORM).norm("kv_a_layernorm", latent.rank)
    yield under.columns("kv_b_proj", latent.rank, latent.heads * (latent.nope + latent.value))
    if kept.indexer_bytes_per_token:
        yield from _indexer(model, latent, Under(f"{path}.indexer", Role.INDEXER))
    out = latent.heads * latent.value
    output_bias = switched(model.fields, style.output_bias)
    yield Under(path, Role.OUTPUT).rows("o_proj", out, hidden, output_bias)


def _indexer(model: Model, latent: Latent, under: Under) -> Iterator[Module]:
    """DeepSeek-V3.2's lightning indexer: its queries come from the compressed query."""
    width = latent.index_heads * latent.index_size
    yield under.linear("wq_b", latent.query_rank or model.hidden, width)
    yield under.linear("wk", model.hidden, latent.index_size)
    yield under.norm("k_norm", latent.index_size, bias=True)
    yield under.linear("weights_proj", model.hidden, latent.index_heads)


def _state(model: Model, under: Under) -> Made:
    if model.layout in _GATED:
        return _gated_delta(model, under)
    if model.layout == "jamba":
        return _mamba1(model, under)
    if model.layout in _MAMBA2:
        return _mamba2(model, under)
    raise UnknownLayoutError("the weights of its state layers are not known")


def _gated_delta(model: Model, under: Under) -> Made:
    fields, hidden = model.fields, model.hidden
    key_heads = fields.required("linear_num_key_heads")
    value_heads = fields.required("linear_num_value_heads")
    key_size = fields.required("linear_key_head_dim")
    value_size = fields.required("linear_value_head_dim")
    taps = fields.required("linear_conv_kernel_dim")
    key, value = key_heads * key_size, value_heads * value_size
    ins: tuple[tuple[str, int], ...]
    if model.layout == "qwen3_next":
        ins = (("in_proj_qkvz", 2 * key + 2 * value), ("in_proj_ba", 2 * value_heads))
    else:
        ins = (
            ("in_proj_qkv", 2 * key + value),
            ("in_proj_z", value),
            ("in_proj_b", value_heads),
            ("in_proj_a", value_heads),
        )
    # Decay, read of the old value, correction and write, read: 1 + 2 + 2 + 2 operations.
    mixer = StateMixer("gated delta", value_heads * key_size * value_size, 7, 2 * key + value, taps)
    modules = (
        under.convolution("conv1d", taps, 2 * key + value),
        *(under.columns(name, hidden, width) for name, width in ins),
        under.values("dt_bias", value_heads),
        under.values("A_log", value_heads),
        under.norm("norm", value_size),
        under.rows("out_proj", value, hidden),
    )
    return mixer, modules


_MAMBA2: Final = {
    "nemotron_h": (
        "mamba_num_heads",
        "mamba_head_dim",
        "ssm_state_size",
        "n_groups",
        "conv_kernel",
        "use_bias",
        "use_conv_bias",
    ),
    "granitemoehybrid": (
        "mamba_n_heads",
        "mamba_d_head",
        "mamba_d_state",
        "mamba_n_groups",
        "mamba_d_conv",
        "mamba_proj_bias",
        "mamba_conv_bias",
    ),
}


def _mamba2(model: Model, under: Under) -> Made:
    fields, hidden = model.fields, model.hidden
    *sizes, proj_bias, conv_bias = _MAMBA2[model.layout]
    heads, size, state, groups, taps = (fields.required(name) for name in sizes)
    bias = switched(fields, (proj_bias, False))
    inner = heads * size
    channels = inner + 2 * groups * state
    # Decay, outer product and add, read: 1 + 2 + 2 operations.
    mixer = StateMixer("mamba2", inner * state, 5, channels, taps)
    modules = (
        under.convolution("conv1d", taps, channels, switched(fields, (conv_bias, True))),
        under.columns("in_proj", hidden, inner + channels + heads, bias),
        under.values("dt_bias", heads),
        under.values("A_log", heads),
        under.values("D", heads),
        under.norm("norm", inner),
        under.rows("out_proj", inner, hidden, bias),
    )
    return mixer, modules


def _mamba1(model: Model, under: Under) -> Made:
    """Jamba's: Mamba-1 with norms on the step and both projections."""
    fields, hidden = model.fields, model.hidden
    inner = fields.required("mamba_expand") * hidden
    state, taps = fields.required("mamba_d_state"), fields.required("mamba_d_conv")
    step = fields.integer("mamba_dt_rank") or -(-hidden // 16)
    bias = switched(fields, ("mamba_proj_bias", False))
    modules = (
        under.convolution("conv1d", taps, inner, switched(fields, ("mamba_conv_bias", True))),
        under.columns("in_proj", hidden, 2 * inner, bias),
        under.rows("x_proj", inner, step + 2 * state),
        under.columns("dt_proj", step, inner, bias=True),
        under.values("A_log", inner * state),
        under.values("D", inner),
        under.norm("dt_layernorm", step),
        under.norm("b_layernorm", state),
        under.norm("c_layernorm", state),
        under.rows("out_proj", inner, hidden, bias),
    )
    return StateMixer("mamba", inner * state, 5, inner, taps), modules
