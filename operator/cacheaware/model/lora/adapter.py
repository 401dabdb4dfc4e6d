"""An adapter on disk: its tensors and its adapter_config.json."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacheaware.model.lora.safetensors_file import read_safetensors
from cacheaware.model.lora.tensors import LoraFileError, Tensor
from cacheaware.model.lora.torch_file import read_torch

WEIGHTS = (
    "adapter_model.safetensors", "adapter_model.bin", "adapter_model.pt",
    "pytorch_lora_weights.safetensors", "adapters.safetensors",
)  # fmt: skip
"""The first that is there is the adapter: the order in which engines look."""
CONFIG = "adapter_config.json"
LARGEST_CONFIG = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter; `config` is None where there is no adapter_config.json."""

    weights: Path
    tensors: tuple[Tensor, ...]
    config: dict[str, Any] | None


def read_adapter(path: Path) -> Adapter:
    """An adapter from its folder or its file of tensors.

    Raises:
        LoraFileError: there is none, or a file of it is bad.
        OSError: it can't be read.
    """
    weights = weights_in(path) if path.is_dir() else path
    read = read_safetensors if weights.suffix == ".safetensors" else read_torch
    try:
        tensors = tuple(read(weights))
    except LoraFileError as error:
        inside = f"{weights.name}: " if weights != path else ""
        raise LoraFileError(f"{inside}{error}") from error
    if not tensors:
        raise LoraFileError(f"{weights.name} holds no tensor")
    return Adapter(weights, tensors, config_beside(weights))


def weights_in(folder: Path) -> Path:
    """The file of tensors in a folder.

    Raises:
        LoraFileError: there is none, or more than one whose name nobody looks for.
    """
    for name in WEIGHTS:
        if (folder / name).is_file():
            return folder / name
    other = sorted(folder.glob("*.safetensors"))
    if len(other) == 1:
        return other[0]
    raise LoraFileError(
        f"the folder holds no adapter: allowed are {', '.join(WEIGHTS)}, or one *.safetensors"
    )


def config_beside(weights: Path) -> dict[str, Any] | None:
    """The adapter_config.json in the same folder; None where there is none.

    Raises:
        LoraFileError: it is no JSON object, or too large.
    """
    path = weights.parent / CONFIG
    if not path.is_file():
        return None
    if path.stat().st_size > LARGEST_CONFIG:
        raise LoraFileError(f"{CONFIG}: is larger than {LARGEST_CONFIG:,} bytes")
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise LoraFileError(f"{CONFIG}: is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise LoraFileError(f"{CONFIG}: is no JSON object")
    return found
