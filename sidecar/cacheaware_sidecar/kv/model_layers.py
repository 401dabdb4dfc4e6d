"""Puts the rules together: one `Layer` for each layer of a model."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from cacheaware_sidecar.kv.dtypes import KvDtype
from cacheaware_sidecar.kv.errors import ConfigError, UnknownLayoutError
from cacheaware_sidecar.kv.families import why_uncovered
from cacheaware_sidecar.kv.heads import HeadShape, attention_heads, head_shapes
from cacheaware_sidecar.kv.kinds import Kind, Kinds, layer_kinds
from cacheaware_sidecar.kv.latent import is_latent, latent_layer, sparse_indexers
from cacheaware_sidecar.kv.layer import Layer
from cacheaware_sidecar.kv.model import Model
from cacheaware_sidecar.kv.parallel import Parallel
from cacheaware_sidecar.kv.states import UNKNOWN, State, state_of
from cacheaware_sidecar.kv.windows import grows, window_of, windowed_kinds

_WITH_HEADS: Final = frozenset({Kind.FULL, Kind.SLIDING, Kind.CHUNKED, Kind.CROSS})
_WITHOUT_CACHE: Final = frozenset({Kind.NONE, Kind.SHARED, Kind.ENCODER_ONLY})


@dataclass(frozen=True, slots=True)
class Setup:
    """A model and how it is served."""

    model: Model
    parallel: Parallel
    dtype: KvDtype


def model_layers(setup: Setup) -> tuple[Layer, ...]:
    """All layers of a model with what they keep on one tensor-parallel rank.

    Raises:
        ConfigError: A field that can't be right, or parallel sizes that the model can't have.
        UnknownLayoutError: An architecture that the rules don't cover.
    """
    model = setup.model
    if reason := why_uncovered(model.layout, model.fields.values):
        raise UnknownLayoutError(reason)
    _check_ranks(setup)
    kinds = windowed_kinds(model, layer_kinds(model))
    state = state_of(model, setup.parallel) if Kind.STATE in kinds else UNKNOWN
    build = _latent if is_latent(model) else _attention
    return tuple(build(setup, kinds, state))


def _check_ranks(setup: Setup) -> None:
    """Engines refuse to start where the heads can't be split evenly."""
    heads = attention_heads(setup.model)
    for count in heads if isinstance(heads, tuple) else (heads,):
        if count is not None:
            setup.parallel.share("attention heads", count)


def _latent(setup: Setup, kinds: Kinds, state: State) -> Iterator[Layer]:
    for index, kind in enumerate(kinds):
        if kind is Kind.STATE:
            yield _state_layer(index, state)
        elif kind is Kind.FULL:
            yield latent_layer(setup.model, setup.dtype, index)
        elif kind in _WITHOUT_CACHE:
            yield Layer(index=index, kind=kind)
        else:
            raise UnknownLayoutError(f"{kind} layers with a latent (MLA) cache")


def _attention(setup: Setup, kinds: Kinds, state: State) -> Iterator[Layer]:
    shapes = _shapes(setup, kinds)
    indexers = sparse_indexers(setup.model)
    for index, (kind, shape) in enumerate(zip(kinds, shapes, strict=True)):
        if kind is Kind.STATE:
            yield _state_layer(index, state)
        elif kind in _WITHOUT_CACHE:
            yield Layer(index=index, kind=kind)
        elif not shape.kv_heads:
            yield Layer(index=index, kind=Kind.NONE)
        else:
            yield _with_indexer(_attention_layer(setup, index, kind, shape), indexers[index])
        if setup.model.layout == "whisper":
            yield _attention_layer(setup, index, Kind.CROSS, shape)


def _shapes(setup: Setup, kinds: Kinds) -> tuple[HeadShape, ...]:
    """Heads are asked for only where a layer has attention with a cache."""
    if not _WITH_HEADS & set(kinds):
        return (HeadShape(0, 0, 0),) * len(kinds)
    if setup.dtype.latent_bytes is not None:
        raise ConfigError(
            f"KV dtype is {setup.dtype.name}: allowed for models with a latent (MLA) cache only"
        )
    return head_shapes(setup.model, kinds)


def _state_layer(index: int, state: State) -> Layer:
    return Layer(index=index, kind=Kind.STATE, state_bytes=state.size, arithmetic=state.arithmetic)


def _attention_layer(setup: Setup, index: int, kind: Kind, shape: HeadShape) -> Layer:
    """Full, sliding, chunked or cross attention: heads x (K + V); one head is never split."""
    dtype, heads = setup.dtype, setup.parallel.heads("KV heads", shape.kv_heads)
    size = dtype.side("head size", shape.key) + dtype.side("head size", shape.value)
    window = window_of(setup.model, kind)
    return Layer(
        index=index,
        kind=kind,
        total_kv_heads=shape.kv_heads,
        kv_heads=heads,
        key_size=shape.key,
        value_size=shape.value,
        cache_bytes_per_token=heads * size,
        window=window,
        grows=kind is not Kind.CROSS and grows(setup.model, window),
        source_tokens=_source_tokens(setup.model) if kind is Kind.CROSS else 0,
        arithmetic=f"{heads} KV heads x {dtype.factors(shape.key, shape.value)}",
    )


def _with_indexer(layer: Layer, size: int) -> Layer:
    if not size:
        return layer
    text = f"({layer.arithmetic} + {size} B indexer)"
    return replace(layer, indexer_bytes_per_token=size, arithmetic=text)


def _source_tokens(model: Model) -> int | None:
    """Positions of the encoder's output; images have no such field."""
    return model.fields.integer("max_source_positions")
