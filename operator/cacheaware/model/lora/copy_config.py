"""The adapter_config.json of a corrected copy."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from cacheaware.model.lora.matches import FIRST_HALVES
from cacheaware.model.lora.placed import Placed

T = TypeVar("T")


def config_for(placed: Iterable[Placed], config: Mapping[str, Any]) -> dict[str, Any]:
    """adapter_config.json that fits the tensors: r, alpha, targets; the rest as it was.

    The scale alpha / r of each module stays what it was; where ranks were joined, alpha grows with
    them. Without any word of alpha it is r: a scale of 1.
    """
    halves = [one for one in placed if one.part in FIRST_HALVES]
    ranks = {one.module: one.tensor.shape[0] for one in halves}
    told = dict(config) or {"peft_type": "LORA", "task_type": "CAUSAL_LM", "bias": "none"}
    told.setdefault("peft_type", "LORA")
    if not ranks:
        return told
    own = {one.module: one.alpha for one in halves if one.alpha is not None}
    scale = scale_of(config)
    alphas = {
        name: own.get(name, rank if scale is None else scale * rank ** exponent(config))
        for name, rank in ranks.items()
    }
    rank = most_common(ranks.values())
    alpha = number(most_common(alphas[name] for name, one in ranks.items() if one == rank))
    told |= {
        "r": rank,
        "target_modules": sorted({name.rsplit(".", 1)[-1] for name in ranks}),
        "lora_alpha": alpha,
        "rank_pattern": {name: one for name, one in ranks.items() if one != rank},
        "alpha_pattern": {
            name: number(one) for name, one in alphas.items() if number(one) != alpha
        },
    }
    if config.get("r") == rank and not told["rank_pattern"] and "lora_alpha" in config and not own:
        told |= {"lora_alpha": config["lora_alpha"], "alpha_pattern": {}}  # not rounded twice
    return told


def most_common(values: Iterable[T]) -> T:
    """The value that is there most often; the first of equals."""
    return Counter(values).most_common(1)[0][0]


def exponent(config: Mapping[str, Any]) -> float:
    """The power of r that alpha is divided by: a half with rsLoRA."""
    return 0.5 if config.get("use_rslora") else 1.0


def scale_of(config: Mapping[str, Any]) -> float | None:
    """The scale that the file gives; None where it gives none."""
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if type(rank) is not int or rank < 1 or not isinstance(alpha, int | float):
        return None
    return float(alpha / rank ** exponent(config))


def number(value: float) -> float | int:
    """A whole number without its fraction."""
    return int(value) if math.isfinite(value) and value == int(value) else value
