"""The rotary tables of a device and a precision, against the reference in float64.

Three paths are compared: torch in float64, torch in float32 as engines do it, and the model class's
own embedding.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel

from cacheaware.model.probes.loaded import ProbeError
from cacheaware.model.rope import PRECISIONS, Rope, checkpoints, rounded, table


@dataclass(frozen=True, slots=True)
class Gap:
    """How far a way to the table is from the reference at a precision.

    Attributes:
        path: Who computed it.
        precision: Both are rounded to it.
        unequal: How many entries differ in a bit.
        entries: How many there are.
        largest: The largest difference.
    """

    path: str
    precision: str
    unequal: int
    entries: int
    largest: float


def on_device(rope: Rope, length: int, device: str, dtype: torch.dtype) -> Any:
    """[rows, 2 x pairs]: cos, then sin, with every step in one precision on one device."""
    rows = torch.tensor(checkpoints(length), device=device, dtype=dtype)
    frequencies = torch.tensor(rope.frequencies, device=device, dtype=dtype)
    angles = rows[:, None] * frequencies[None, :]
    return torch.cat([angles.cos(), angles.sin()], dim=-1) * rope.scale


def own(folder: Path, length: int, device: str) -> Any:
    """The table of the model class's own embedding, in float32.

    Raises:
        ProbeError: its class has none that can be asked.
    """
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    with torch.device("meta"):
        model = AutoModel.from_config(config.get_text_config())
    embedding = getattr(model, "rotary_emb", None)
    if embedding is None:
        raise ProbeError(f"{type(model).__name__} has no rotary embedding of its own to ask")
    rotary = type(embedding)(config.get_text_config()).to(device)
    positions = torch.tensor([checkpoints(length)], device=device)
    cos, sin = rotary(torch.zeros(1, 1, device=device), positions)
    cos, sin = (one.reshape(-1, one.shape[-2], one.shape[-1])[0] for one in (cos, sin))
    half = cos.shape[-1] // 2
    return torch.cat([cos[:, :half], sin[:, :half]], dim=-1)


def compared(path: str, rope: Rope, length: int, found: Any) -> list[Gap]:
    """A table against the reference, at each precision that it holds."""
    wanted = table(rope, checkpoints(length))
    got = found.detach().double().cpu().flatten().tolist()
    pairs = list(zip(wanted, got, strict=True))
    largest = max(abs(one - two) for one, two in pairs)
    told = []
    for precision in PRECISIONS[1:]:
        unequal = sum(rounded(one, precision) != rounded(two, precision) for one, two in pairs)
        told.append(Gap(path, precision, unequal, len(pairs), largest))
    return told
