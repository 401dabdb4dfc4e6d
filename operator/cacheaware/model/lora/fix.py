"""A copy of an adapter whose keys are PEFT's, which every engine binds.

What is only named or laid out differently is renamed, transposed, cut or joined without a change of
its values. What means nothing in the base model is left out and told.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacheaware.model.lora.adapter import CONFIG, Adapter
from cacheaware.model.lora.adapter_config import faults
from cacheaware.model.lora.base_model import Base
from cacheaware.model.lora.copy_config import config_for
from cacheaware.model.lora.fusions import LeftOut, cut, joined
from cacheaware.model.lora.keys import Part
from cacheaware.model.lora.matches import Match, match_of
from cacheaware.model.lora.placed import Placed, alphas_of, renamed
from cacheaware.model.lora.safetensors_file import write_safetensors
from cacheaware.model.lora.tensors import LoraFileError

WEIGHTS = "adapter_model.safetensors"


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a corrected copy holds."""

    placed: tuple[Placed, ...]
    config: dict[str, Any]
    left_out: tuple[LeftOut, ...]


def fixed(adapter: Adapter, base: Base) -> Fixed:
    """A corrected copy of an adapter.

    Raises:
        LoraFileError: two tensors would get the same key, nothing binds, or a value in
            adapter_config.json or an alpha can't be read, so that the scale isn't known.
    """
    if wrong := faults(adapter.config or {}):
        raise LoraFileError(f"{CONFIG}: {wrong[0]}")
    matches = [match_of(one, base) for one in adapter.tensors]
    alphas = alphas_of(matches)
    placed: list[Placed] = []
    left: list[LeftOut] = []
    parts: dict[tuple[str, Part], list[Match]] = defaultdict(list)
    for one in matches:
        if one.helper:
            continue
        if one.key is None or isinstance(one.found, str):
            left.append((one.tensor.name, one.shown))
        elif one.found.part is not None:
            parts[one.found.modules[0].name, one.key.part].append(one)
        elif len(one.found.modules) > 1:
            made, lost = cut(one, base, alphas)
            placed, left = placed + made, left + lost
        else:
            placed.append(renamed(one, one.key, one.found.modules[0], alphas))
    made, lost = joined(parts, base, alphas)
    placed, left = placed + made, left + lost
    names = Counter(one.tensor.name for one in placed)
    if twice := [name for name, count in names.items() if count > 1]:
        raise LoraFileError(f"two tensors would be {twice[0]!r}: remove the one that isn't meant")
    if not placed:
        raise LoraFileError("no tensor of it binds: is --config the model it was trained on?")
    return Fixed(tuple(placed), config_for(placed, adapter.config or {}), tuple(left))


def write(made: Fixed, out: Path) -> None:
    """Write a copy to a folder that is not there or empty.

    Raises:
        LoraFileError: it holds something, or an alpha is no finite number.
        OSError: it can't be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise LoraFileError(f"--out is {str(out)!r}: allowed is a folder that is new or empty")
    try:
        text = json.dumps(made.config, indent=2, sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise LoraFileError("an alpha of it is NaN or infinite: allowed are numbers") from error
    out.mkdir(parents=True, exist_ok=True)
    write_safetensors(out / WEIGHTS, (one.tensor for one in made.placed), {"format": "pt"})
    (out / CONFIG).write_text(text + "\n", encoding="utf-8")
