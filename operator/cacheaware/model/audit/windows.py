"""Sliding windows: set and unused, on and reaching nothing, or on layers that nobody can serve."""

from collections.abc import Iterator
from typing import Final

from cacheaware.doctor.findings import Finding
from cacheaware.model.audit.view import Serving, View, error, info, warning

BY_LAYER: Final = frozenset({"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen3", "qwen3_moe"})
"""Types in which layers from max_window_layers on slide, the others don't (transformers)."""
NAMES: Final = ("sliding_window", "sliding_window_size")
OTHER_NAMES: Final = ("local_attention", "window_size")
"""What encoders call it."""
SLIDING: Final = "sliding_attention"


def unused(view: View, _serving: Serving) -> Iterator[Finding]:
    """A window that no layer has: switched off, too long, or beyond the last layer."""
    name = view.first(*NAMES)
    window = view.integer(name) if name else None
    if name is None or window is None:
        return
    if view.flag("use_sliding_window") is False:
        yield info(
            view, "window-off",
            f"{view.named(name)} {window:,} is ignored: use_sliding_window is false, attention is "
            f"full and its cache grows",
        )  # fmt: skip
    elif view.positions and window >= view.positions:
        yield info(
            view, "window-long",
            f"{view.named(name)} {window:,} is no shorter than the {view.positions:,} positions: "
            f"attention is full",
        )  # fmt: skip
    elif _reaches_no_layer(view):
        yield warning(
            view, "window-unused",
            f"use_sliding_window is true, but max_window_layers "
            f"{view.integer('max_window_layers')} leaves none of the {view.layers} layers to "
            f"slide: all keep the full cache",
            "Set use_sliding_window to false, or max_window_layers to the first sliding layer.",
        )  # fmt: skip


def some_layers(view: View, serving: Serving) -> Iterator[Finding]:
    """Windows on part of the layers, which vLLM's Qwen2 class refuses."""
    first, layers = view.integer("max_window_layers"), view.layers
    if not serving.vllm or view.layout != "qwen2" or view.flag("use_sliding_window") is not True:
        return
    if first and layers and first < layers and view.first(*NAMES):
        yield error(
            view, "window-some-layers",
            f"layers {first} to {layers - 1} of {layers} slide (max_window_layers {first}): vLLM "
            f"does not serve qwen2 with windows on some layers",
            "Set use_sliding_window to false, as the releases have it.",
        )  # fmt: skip


def listed(view: View, _serving: Serving) -> Iterator[Finding]:
    """`layer_types` and the window belong together."""
    entries = view.text.get("layer_types")
    if not isinstance(entries, list) or view.flag("use_sliding_window") is False:
        return
    kinds = [one for one in entries if isinstance(one, str)]
    name = view.first(*NAMES)
    if SLIDING in kinds and not any(name in view.text for name in (*NAMES, *OTHER_NAMES)):
        yield error(
            view, "window-missing",
            f"{view.named('layer_types')} has {kinds.count(SLIDING)} sliding layers, and no "
            f"sliding_window tells how long",
            "Add sliding_window.",
        )  # fmt: skip
    elif name and SLIDING not in kinds and not set(kinds) - {"full_attention"}:
        yield info(
            view, "window-unlisted",
            f"{view.named(name)} is {view.integer(name)}, but no entry of layer_types slides: the "
            f"window is on no layer",
            "Take the window out, or list the layers that slide.",
        )  # fmt: skip


def _reaches_no_layer(view: View) -> bool:
    first, layers = view.integer("max_window_layers"), view.layers
    return (
        view.layout in BY_LAYER
        and view.flag("use_sliding_window") is True
        and bool(first and layers and first >= layers)
    )


RULES: Final = (unused, some_layers, listed)
