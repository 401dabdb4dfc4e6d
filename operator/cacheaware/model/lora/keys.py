"""What the key of an adapter's tensor means, whoever wrote it.

A key is a path to a module and an ending. The endings of a dozen writers are known by name; the
paths are matched against the modules of the base model (`base_model`).
"""

import re
from dataclasses import dataclass
from enum import StrEnum

PEFT_PREFIX = "base_model.model."
"""What PEFT puts before the name of every module, once."""
WRAPPERS = re.compile(
    r"^(?:base_model\.model\.|base_model\.|module\.|_orig_mod\.|_forward_module\.)"
)
INNER_WRAPPERS = re.compile(r"(?:_fsdp_wrapped_module|_checkpoint_wrapped_module|_orig_mod)\.")
FLAT = re.compile(r"^lora_(?:unet|transformer|te\d*|llm|model)?_?")


class Part(StrEnum):
    """Which tensor of a module it is."""

    A = "lora_A"
    B = "lora_B"
    EMBEDDING_A = "lora_embedding_A"
    EMBEDDING_B = "lora_embedding_B"
    MAGNITUDE = "lora_magnitude_vector"
    ALPHA = "alpha"
    BIAS = "bias"
    BASE = "base"
    """A weight of the base model that was saved along."""
    FULL = "full"
    """A whole module that was trained (`modules_to_save`)."""


class Style(StrEnum):
    """Who writes such keys."""

    PEFT = "peft"
    DEFAULT = "peft, with the adapter's name"
    BARE = "without .weight"
    KOHYA = "kohya (flat names, lora_down, lora_up)"
    DIFFUSERS = "diffusers (lora.down, lora.up)"
    LOWER = "torchtune or MLX (lora_a, lora_b)"
    MEGATRON = "Megatron or NeMo (adapter.linear_in, linear_out)"
    FULL = "a whole module"


@dataclass(frozen=True, slots=True)
class Key:
    """A key taken apart."""

    path: str
    """The module as written, without wrappers."""
    part: Part
    style: Style
    prefixes: int
    """How often `base_model.model.` stands before it; PEFT writes it once."""


HALVES = {"down": Part.A, "up": Part.B, "in": Part.A, "out": Part.B, "a": Part.A, "b": Part.B}
NAME = r"(?P<name>\w+)"
ENDINGS: tuple[tuple[re.Pattern[str], Style], ...] = (
    (re.compile(r"\.lora_(?P<part>[AB])\.weight$"), Style.PEFT),
    (re.compile(rf"\.lora_(?P<part>[AB])\.{NAME}\.weight$"), Style.DEFAULT),
    (re.compile(r"\.lora_(?P<part>[AB])$"), Style.BARE),
    (re.compile(r"\.lora_(?P<part>[ab])(?:\.weight)?$"), Style.LOWER),
    (re.compile(r"\.lora_(?P<part>down|up)\.weight$"), Style.KOHYA),
    (re.compile(r"\.(?:processor\.)?lora\.(?P<part>down|up)\.weight$"), Style.DIFFUSERS),
    (re.compile(r"(?:\.\w*adapter\w*)+\.linear_(?P<part>in|out)\.weight$"), Style.MEGATRON),
)
OTHERS: tuple[tuple[re.Pattern[str], Part, Style], ...] = (
    (re.compile(r"\.lora_embedding_A$"), Part.EMBEDDING_A, Style.PEFT),
    (re.compile(r"\.lora_embedding_B$"), Part.EMBEDDING_B, Style.PEFT),
    (re.compile(r"\.lora_embedding_A\.\w+$"), Part.EMBEDDING_A, Style.DEFAULT),
    (re.compile(r"\.lora_embedding_B\.\w+$"), Part.EMBEDDING_B, Style.DEFAULT),
    (re.compile(r"\.lora_magnitude_vector$"), Part.MAGNITUDE, Style.PEFT),
    (re.compile(r"\.lora_magnitude_vector(?:\.\w+)?\.weight$"), Part.MAGNITUDE, Style.DEFAULT),
    (re.compile(r"\.dora_scale$"), Part.MAGNITUDE, Style.KOHYA),
    (re.compile(r"\.alpha$"), Part.ALPHA, Style.KOHYA),
    (re.compile(r"\.lora_[AB](?:\.\w+)?\.bias$"), Part.BIAS, Style.PEFT),
    (re.compile(r"\.base_layer\.(?:weight|bias)$"), Part.BASE, Style.PEFT),
    (re.compile(r"\.modules_to_save(?:\.\w+)?\.weight$"), Part.FULL, Style.DEFAULT),
    (re.compile(r"\.weight$"), Part.FULL, Style.FULL),
)


def key_of(raw: str) -> Key | None:
    """A key taken apart; None where its ending is nobody's.

    >>> key_of("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight").path
    'model.layers.0.self_attn.q_proj'
    """
    for ending, style in ENDINGS:
        if found := ending.search(raw):
            part = HALVES[found["part"].lower()]
            return key(raw[: found.start()], part, style)
    for ending, part, style in OTHERS:
        if found := ending.search(raw):
            return key(raw[: found.start()], part, style)
    return None


def key(path: str, part: Part, style: Style) -> Key:
    """A key whose wrappers are taken off its path."""
    bare, prefixes = unwrapped(path)
    if style is Style.KOHYA and "." not in bare:
        bare = FLAT.sub("", bare)
    return Key(bare, part, style, prefixes)


def unwrapped(path: str) -> tuple[str, int]:
    """A path without what training wraps around a model, and how often PEFT did.

    The model's own `model.` stays.
    """
    path, prefixes = INNER_WRAPPERS.sub("", path), 0
    while found := WRAPPERS.match(path):
        prefixes += found[0] == PEFT_PREFIX
        path = path[found.end() :]
    return path, prefixes


def peft_name(module: str, part: Part) -> str:
    """The key that PEFT writes for a module, and that every engine binds."""
    if part is Part.FULL:
        return f"{PEFT_PREFIX}{module}.weight"
    if part in {Part.A, Part.B}:
        return f"{PEFT_PREFIX}{module}.{part}.weight"
    return f"{PEFT_PREFIX}{module}.{part}"
