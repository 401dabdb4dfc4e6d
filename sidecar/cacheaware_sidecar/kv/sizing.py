"""From a parsed config.json to its `Geometry`.

Formulas: vLLM 0.33, `v1/kv_cache_interface.py` and `v1/core/kv_cache_utils.py`; they give the
same numbers as its published logs. Speculative drafters add layers of their own, which no field
of this file tells: they are not counted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from cacheaware_sidecar.kv import notes
from cacheaware_sidecar.kv.blocks import Group, cache_groups, effective_block_size
from cacheaware_sidecar.kv.dtypes import AUTO, kv_dtype_of, named_dtype
from cacheaware_sidecar.kv.errors import ConfigError, UnknownLayoutError
from cacheaware_sidecar.kv.fields import whole
from cacheaware_sidecar.kv.geometry import Geometry
from cacheaware_sidecar.kv.heads import attention_heads, declared_kv_heads
from cacheaware_sidecar.kv.layer import Layer
from cacheaware_sidecar.kv.model import read_model
from cacheaware_sidecar.kv.model_layers import Setup, model_layers
from cacheaware_sidecar.kv.parallel import Parallel
from cacheaware_sidecar.kv.stage import Stage

LARGEST_BLOCK: Final = 1_000_000
ONE_RANK: Final = Parallel()


def geometry(
    config: Mapping[str, Any],
    parallel: Parallel = ONE_RANK,
    kv_dtype: str = AUTO,
    block_size: int | None = None,
) -> Geometry:
    """What a config.json says about KV memory.

    Args:
        config: The parsed file.
        parallel: Tensor, pipeline and decode-context sizes.
        kv_dtype: As the engine's `--kv-cache-dtype`; `auto` takes what the checkpoint declares.
        block_size: Tokens per block; None for 16. Hybrids may raise it.

    Returns:
        The geometry; with `unknown_reason` and without bytes where no rule covers the model.

    Raises:
        ConfigError: A field or an argument that can't be right: one line.
    """
    check_options(kv_dtype, block_size)
    model = read_model(config)
    dtype, note = kv_dtype_of(kv_dtype, model.whole, model.fields)
    setup = Setup(model, parallel, dtype)
    try:
        layers = model_layers(setup)
    except UnknownLayoutError as error:
        return _unknown(setup, str(error))
    known = _known(setup, layers, block_size)
    return replace(known, warnings=(*((note,) if note else ()), *known.warnings))


def check_options(kv_dtype: str, block_size: int | None) -> None:
    """Refuse a dtype or block size that no model can have.

    Raises:
        ConfigError: One line with the value and what is allowed.
    """
    named_dtype(kv_dtype)
    if block_size is not None:
        whole("block size", block_size, 1, LARGEST_BLOCK)


def _unknown(setup: Setup, reason: str) -> Geometry:
    model = setup.model
    return Geometry(
        model_type=model.model_type,
        unknown_reason=reason,
        parallel=setup.parallel,
        kv_dtype=setup.dtype.name,
        layers=model.told_layers,
        heads=attention_heads(model),
        warnings=(notes.unknown(model, reason),),
    )


def _known(setup: Setup, layers: tuple[Layer, ...], requested: int | None) -> Geometry:
    model, parallel = setup.model, setup.parallel
    _check_context_parallel(parallel, layers)
    size = effective_block_size(layers, requested)
    groups, trouble = _groups(layers, size)
    declared = _declared_rate(setup, layers)
    return Geometry(
        model_type=model.model_type,
        unknown_reason=None,
        parallel=parallel,
        kv_dtype=setup.dtype.name,
        layers=model.layers,
        heads=attention_heads(model),
        layer_list=layers,
        stages=tuple(_stages(layers, groups, parallel.stages(model.layers))),
        block_size=size,
        groups=groups,
        declared_bytes_per_token=declared,
        warnings=(
            *notes.about(setup, layers),
            *notes.about_declared(declared, layers),
            *notes.about_blocks(requested, size, trouble),
        ),
    )


def _groups(
    layers: tuple[Layer, ...], block_size: int
) -> tuple[tuple[Group, ...] | None, str | None]:
    """The groups, or why they can't be told (the rates per token stay known)."""
    try:
        return cache_groups(layers, block_size), None
    except UnknownLayoutError as error:
        return None, str(error)


def _stages(
    layers: tuple[Layer, ...], groups: tuple[Group, ...] | None, ranges: Iterable[range]
) -> Iterable[Stage]:
    for held in ranges:
        at = [position for position, layer in enumerate(layers) if layer.index in held]
        size = None if groups is None else max((g.bytes_in(at) for g in groups), default=0)
        yield Stage(tuple(layers[position] for position in at), size)


def _check_context_parallel(parallel: Parallel, layers: tuple[Layer, ...]) -> None:
    """The conditions of vLLM itself; beyond them there is no such engine to size."""
    if parallel.decode_context == 1:
        return
    if any(not layer.grows for layer in layers if layer.bytes_per_token or layer.state_bytes != 0):
        raise ConfigError(
            f"decode context parallel is {parallel.decode_context}: allowed is 1 for models with "
            f"windows, states or cross attention"
        )
    most = max((layer.total_kv_heads for layer in layers), default=0)
    if most and parallel.decode_context > max(1, parallel.tensor // most):
        raise ConfigError(
            f"decode context parallel is {parallel.decode_context}: allowed is at most tensor "
            f"parallel / KV heads ({parallel.tensor} / {most})"
        )


def _declared_rate(setup: Setup, layers: tuple[Layer, ...]) -> int | None:
    declared = declared_kv_heads(setup.model)
    if declared is None:
        return None
    return sum(
        layer.bytes_per_token // layer.kv_heads * max(1, count // setup.parallel.tensor)
        for layer, count in zip(layers, declared, strict=True)
    )
