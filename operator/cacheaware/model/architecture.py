"""A model as its config.json describes it: dimensions and modules, layer by layer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cacheaware.model.feed_forward import feed_of
from cacheaware.model.layers import Layer
from cacheaware.model.mixers import mixer_of
from cacheaware.model.modules import Form, Module, Role, Split, Under
from cacheaware.model.styles import STYLES, Style, switched
from cacheaware_sidecar.kv import Geometry, geometry
from cacheaware_sidecar.kv import Layer as KvLayer
from cacheaware_sidecar.kv.errors import UnknownLayoutError, shown
from cacheaware_sidecar.kv.model import Model, read_model

_BESIDE_EXPERTS: Final = (
    "post_feedforward_layernorm_1",
    "post_feedforward_layernorm_2",
    "pre_feedforward_layernorm_2",
)
"""Gemma-4's norms around experts that stand beside the FFN."""
_OPT_OFFSET: Final = 2
"""OPT's table of positions has two rows more than positions."""
_TEXT_ROOTS: Final = {"llm_config": "language_model.model", "language_config": "language.model"}
_TEXT_VOCABULARY: Final = {"gemma3": 262_208, "llama": 32_000, "mistral": 32_000}
"""Of the text classes, where multimodal files leave the field out."""

_TEXT_POSITIONS: Final = {"gemma3": 131_072}
"""Likewise."""


class UnknownArchitectureError(Exception):
    """No rule covers the model's weights; the text says why, on one line."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model, the text part of a multimodal one.

    Attributes:
        model_type: `model_type` of the file.
        layout: The type whose rules apply.
        hidden: Hidden size.
        vocabulary: Rows of the embedding.
        positions: `rope`, `learned`, `alibi` or `none`.
        max_positions: The most positions of one request, where the file tells.
        norm: `rms`, `layer` (gain and bias), `layer-weight` (gain), `layer-bare` (neither).
        tied: Whether the head uses the embedding's weight.
        before: Modules in front of the layers.
        layers: The layers.
        after: Modules behind the layers.
        kept: The KV cache of the same file on one rank: what it keeps per layer.
    """

    model_type: str | None
    layout: str
    hidden: int
    vocabulary: int
    positions: str
    max_positions: int | None
    norm: str
    tied: bool
    before: tuple[Module, ...]
    layers: tuple[Layer, ...]
    after: tuple[Module, ...]
    kept: Geometry

    def modules(self) -> Iterator[Module]:
        """All modules, in the order of the forward pass."""
        yield from self.before
        for layer in self.layers:
            yield from layer.modules
        yield from self.after

    def linears(self) -> Iterator[Module]:
        """The matrix products, which a LoRA can adapt."""
        return (module for module in self.modules() if module.is_linear)


def architecture(config: Mapping[str, Any]) -> Architecture:
    """The architecture of a config.json.

    Args:
        config: The parsed file.

    Raises:
        UnknownArchitectureError: No rule covers it. It is not guessed.
        ConfigError: A field that is missing or can't be right.
    """
    kept = geometry(config)
    model = read_model(config)
    name = f"model_type {shown(model.model_type or model.layout)}"
    if kept.unknown_reason is not None:
        raise UnknownArchitectureError(f"layout of {name} not supported: {kept.unknown_reason}")
    style = STYLES.get(model.layout)
    if style is None:
        raise UnknownArchitectureError(f"weights of {name} not supported: its modules aren't known")
    try:
        return _built(model, _rooted(model, style), kept)
    except UnknownLayoutError as error:
        raise UnknownArchitectureError(f"weights of {name} not supported: {error}") from error


def _rooted(model: Model, style: Style) -> Style:
    """The style with the name of the text part's root in a multimodal model."""
    if not model.fields.path or style.root != "model":
        return style
    part = model.fields.path.rstrip(".").rpartition(".")[2]
    return replace(style, root=_TEXT_ROOTS.get(part, "model.language_model"))


def _built(model: Model, style: Style, kept: Geometry) -> Architecture:
    tied = _is_tied(model, style)
    vocabulary = _vocabulary(model)
    return Architecture(
        model_type=model.model_type,
        layout=model.layout,
        hidden=model.hidden,
        vocabulary=vocabulary,
        positions=_positions(model, style),
        max_positions=model.positions or _text_positions(model),
        norm=style.norm,
        tied=tied,
        before=tuple(_before(model, style, vocabulary, tied)),
        layers=tuple(_layer(model, style, one) for one in kept.layer_list),
        after=tuple(_after(model, style, vocabulary, tied)),
        kept=kept,
    )


def _vocabulary(model: Model) -> int:
    default = _TEXT_VOCABULARY.get(model.layout) if model.fields.path else None
    if default and not model.fields.has("vocab_size"):
        return default
    return model.fields.required("vocab_size", "padded_vocab_size")


def _text_positions(model: Model) -> int | None:
    return _TEXT_POSITIONS.get(model.layout) if model.fields.path else None


def _is_tied(model: Model, style: Style) -> bool:
    """What the text part says, else the whole file, else the class."""
    for fields in (model.fields, model.whole):
        told = fields.flag("tie_word_embeddings")
        if told is not None:
            return told
    return style.tie


def _positions(model: Model, style: Style) -> str:
    if model.layout == "falcon" and model.fields.flag("alibi"):
        return "alibi"
    if model.fields.values.get("position_embedding_type") == "nope":
        return "none"
    return style.positions


def _before(model: Model, style: Style, vocabulary: int, tied: bool) -> Iterator[Module]:
    root, hidden = style.root, model.hidden
    name = f"{root}.{style.embedding}"
    width = _embedding_width(model)
    table = Module(name, Role.EMBEDDING, Form.EMBEDDING, vocabulary, width, used=int(not tied))
    yield replace(table, split=Split.ROWS)
    if style.learned:
        rows = model.fields.required("max_position_embeddings", "n_positions")
        rows += _OPT_OFFSET if model.layout == "opt" else 0
        yield Module(f"{root}.{style.learned}", Role.POSITIONS, Form.EMBEDDING, rows, hidden)
    if width != hidden:
        yield Under(root, Role.EMBEDDING).linear("project_in", width, hidden)
    if style.embedding_norm:
        yield from _norm(style, root, style.embedding_norm, hidden)


def _embedding_width(model: Model) -> int:
    return model.fields.integer("word_embed_proj_dim") or model.hidden


def _after(model: Model, style: Style, vocabulary: int, tied: bool) -> Iterator[Module]:
    width = _embedding_width(model)
    if model.fields.flag("do_layer_norm_before") is not False:
        yield from _norm(style, style.root, style.final_norm, model.hidden)
    if width != model.hidden:
        yield Under(style.root, Role.HEAD).linear("project_out", model.hidden, width)
    bias = switched(model.fields, style.head_bias)
    head = Under("", Role.HEAD).columns(style.head, width, vocabulary, bias)
    yield replace(head, tied=tied)


def _layer(model: Model, style: Style, kept: KvLayer) -> Layer:
    path = f"{style.root}.{style.layers}.{kept.index}"
    mixer, mixing = mixer_of(model, style, kept, path)
    feed, feeding = feed_of(model, style, kept.index, path)
    norms = tuple(
        module
        for name in _norm_names(model, style, mixer is not None, feed is not None)
        for module in _norm(style, path, name, model.hidden)
    )
    return Layer(kept.index, mixer, feed, (*norms, *mixing, *feeding))


def _norm_names(model: Model, style: Style, mixes: bool, feeds: bool) -> tuple[str, ...]:
    if model.layout == "falcon":
        return _falcon_norms(model)
    if model.fields.has("block_configs"):
        return tuple(name for name, there in zip(style.norms, (mixes, feeds), strict=True) if there)
    if model.layout == "gemma4" and model.fields.flag("enable_moe_block"):
        return (*style.norms, *_BESIDE_EXPERTS)
    return style.norms


def _falcon_norms(model: Model) -> tuple[str, ...]:
    fields = model.fields
    if fields.flag("new_decoder_architecture"):
        two = (fields.integer("num_ln_in_parallel_attn") or 2) == 2
        return ("ln_attn", "ln_mlp") if two else ("input_layernorm",)
    alone = fields.flag("parallel_attn") is not False
    return ("input_layernorm",) if alone else ("input_layernorm", "post_attention_layernorm")


def _norm(style: Style, path: str, name: str, width: int) -> Iterator[Module]:
    """A norm's gains; a bare one has none, and is no module with weights."""
    if style.norm != "layer-bare":
        yield Under(path, Role.NORM).norm(name, width, style.norm == "layer")
