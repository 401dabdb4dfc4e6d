"""What may stand in an adapter_config.json: a value of another type would turn a check off.

The fields are those of PEFT's `LoraConfig` (0.18). https://github.com/huggingface/peft
(src/peft/tuners/lora/config.py)
"""

import json
import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cacheaware_sidecar.clip import clipped

LARGEST_RANK = 2**31 - 1
BIASES = ("none", "all", "lora_only")
REQUIRED = ("r", "lora_alpha", "target_modules")
"""vLLM refuses a file without one of them (`peft_helper.py`)."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a field may be, as a test and in words."""

    holds: Callable[[Any], bool]
    words: str


def is_rank(value: Any) -> bool:
    """Whether it is a rank."""
    return type(value) is int and 1 <= value <= LARGEST_RANK


def is_alpha(value: Any) -> bool:
    """Whether it is the numerator of a scale that changes something."""
    return is_number(value) and value > 0


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    try:
        return type(value) in {int, float} and math.isfinite(value)
    except OverflowError:
        return False


def is_pattern(value: Any) -> bool:
    """Whether it is a regular expression."""
    if not isinstance(value, str):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(value)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def by_pattern(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """An object whose keys are regular expressions, and whose values hold."""

    def told(value: Any) -> bool:
        return isinstance(value, dict) and all(
            is_pattern(key) and holds(one) for key, one in value.items()
        )

    return told


def is_names(value: Any) -> bool:
    """Whether it is a list of names."""
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def is_layer(value: Any) -> bool:
    """Whether it is the index of a layer."""
    return type(value) is int and value >= 0


def is_layers(value: Any) -> bool:
    """Whether it is a layer's index, or a list of such."""
    return is_layer(value) or (isinstance(value, list) and all(map(is_layer, value)))


def is_replication(value: Any) -> bool:
    """Whether it is a list of ranges of layers."""
    return isinstance(value, list) and all(
        isinstance(one, list) and len(one) == 2 and all(map(is_layer, one)) for one in value
    )


NAMES = Allowed(is_names, "a list of names, or null")
NAMES_OR_PATTERN = Allowed(
    lambda value: is_names(value) or is_pattern(value),
    "a list of names, or a regular expression",
)
SWITCH = Allowed(lambda value: type(value) is bool, "true and false")
FIELDS: Mapping[str, Allowed] = {
    "peft_type": Allowed(lambda value: value == "LORA", "'LORA'"),
    "r": Allowed(is_rank, f"a whole number from 1 to {LARGEST_RANK:,}"),
    "lora_alpha": Allowed(is_alpha, "a finite number above 0 (with 0 the adapter changes nothing)"),
    "lora_dropout": Allowed(
        lambda value: is_number(value) and 0 <= value <= 1, "a number from 0 to 1"
    ),
    "rank_pattern": Allowed(
        by_pattern(is_rank), "an object of regular expressions and whole numbers from 1 on"
    ),
    "alpha_pattern": Allowed(
        by_pattern(is_alpha), "an object of regular expressions and finite numbers above 0"
    ),
    "target_modules": NAMES_OR_PATTERN,
    "exclude_modules": NAMES_OR_PATTERN,
    "target_parameters": NAMES,
    "modules_to_save": NAMES,
    "layers_to_transform": Allowed(is_layers, "a layer's index from 0 on, a list of such, or null"),
    "layers_pattern": Allowed(
        lambda value: isinstance(value, str) or is_names(value), "a name, a list of names, or null"
    ),
    "layer_replication": Allowed(is_replication, "a list of [first, last], or null"),
    "bias": Allowed(lambda value: value in BIASES, ", ".join(BIASES)),
    "init_lora_weights": Allowed(
        lambda value: isinstance(value, bool | str), "true, false, and a method's name"
    ),
    "use_rslora": SWITCH,
    "use_dora": SWITCH,
    "use_qalora": SWITCH,
    "lora_bias": SWITCH,
    "fan_in_fan_out": SWITCH,
}
NEVER_NULL = {"peft_type", "r", "lora_alpha", "lora_dropout"}
"""In all other fields null is PEFT's word for "not used"."""


def faults(config: Mapping[str, Any]) -> list[str]:
    """What can't stand in an adapter_config.json: field, value, what is allowed."""
    told = []
    for field, value in config.items():
        allowed = FIELDS.get(field)
        if allowed and not (value is None and field not in NEVER_NULL):
            if not allowed.holds(value):
                told.append(f"{field} is {clipped(repr(value))}: allowed is {allowed.words}")
        elif not is_json(value):
            told.append(f"{field} holds NaN or Infinity: allowed are JSON's values")
    return told


def missing(config: Mapping[str, Any]) -> list[str]:
    """What has to stand there and doesn't."""
    by_parameters = bool(config.get("target_parameters"))
    return [
        field
        for field in REQUIRED
        if field not in config
        or (field == "target_modules" and config[field] is None and not by_parameters)
    ]


def layers_of(config: Mapping[str, Any]) -> frozenset[int] | None:
    """The layers that the adapter is for; None for all of them, or where they can't be told."""
    layers: Any = config.get("layers_to_transform")
    if is_layer(layers):
        return frozenset({layers})
    return frozenset(layers) if layers and is_layers(layers) else None


def is_json(value: Any) -> bool:
    """Whether no number in it is NaN or infinite, which JSON can't say."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True
