"""Sliding and chunked windows: which layers they cap."""

from typing import Final

from cacheaware_sidecar.kv.errors import ConfigError, UnknownLayoutError
from cacheaware_sidecar.kv.kinds import Kind, Kinds
from cacheaware_sidecar.kv.model import Model

_SLIDING: Final = ("sliding_window", "sliding_window_size")
LARGEST_WINDOW: Final = 10**12
_EVERY_LAYER: Final = frozenset(
    [
        "llama",
        "ministral",
        "ministral3",
        "mistral",
        "mixtral",
        "phi3",
        "phi3_v",
        "phi4mm",
        "phimoe",
        "starcoder2",
    ]
)
"""Types in which a window without a list of layers is on every layer."""


def windowed_kinds(model: Model, kinds: Kinds) -> Kinds:
    """The kinds, where a window of the file is applied or found to be off.

    A plain model with a window in force slides in every layer (vLLM hands the window to each
    attention layer); a window that is null or switched off makes sliding layers full.

    Raises:
        ConfigError: Sliding layers without a window, or a window that can't be right.
        UnknownLayoutError: A window whose layers nothing tells.
    """
    if Kind.SLIDING in kinds:
        return kinds if _is_on(model) else _replaced(kinds)
    if not model.fields.first(*_SLIDING) or _is_switched_off(model) or _names_layers(model):
        return kinds
    model.fields.integer(*_SLIDING, high=LARGEST_WINDOW)
    if model.fields.flag("use_sliding_window") or model.layout not in _EVERY_LAYER:
        raise UnknownLayoutError("sliding_window is set, and nothing tells which layers slide")
    if Kind.STATE in kinds or Kind.CROSS in kinds:
        raise UnknownLayoutError("sliding_window is set beside layers of other kinds")
    return tuple(Kind.SLIDING if kind is Kind.FULL else kind for kind in kinds)


def window_of(model: Model, kind: Kind) -> int | None:
    """The window in tokens of a layer of this kind; None where it has none."""
    if kind is Kind.SLIDING:
        return model.fields.required(*_SLIDING, high=LARGEST_WINDOW)
    if kind is Kind.CHUNKED:
        return model.fields.required("attention_chunk_size", high=LARGEST_WINDOW)
    return None


def grows(model: Model, window: int | None) -> bool:
    """Whether a layer grows with each token: no window, or one no shorter than the model."""
    positions = model.positions
    return window is None or (positions is not None and window >= positions)


def _is_switched_off(model: Model) -> bool:
    return model.fields.flag("use_sliding_window") is False


def _names_layers(model: Model) -> bool:
    """`layer_types` without a sliding layer: the window is on no layer."""
    return bool(model.fields.first("layer_types", "layers_block_type"))


def _is_on(model: Model) -> bool:
    if _is_switched_off(model):
        return False
    if model.fields.first(*_SLIDING):
        return True
    if "sliding_window" in model.fields.values:
        return False
    raise ConfigError(
        f"{model.fields.path}sliding_window is missing: sliding layers need a whole number or null"
    )


def _replaced(kinds: Kinds) -> Kinds:
    return tuple(Kind.FULL if kind is Kind.SLIDING else kind for kind in kinds)
