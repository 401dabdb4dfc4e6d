"""A copy of an adapter whose keys are PEFT's, which every engine binds.

What is only named or laid out differently is renamed, transposed, cut or joined without a change of
its values. What means nothing in the base model is left out and told.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from struct import calcsize, unpack
from typing import Any

from cacheaware.model.lora.adapter import CONFIG, Adapter
from cacheaware.model.lora.adapter_config import faults
from cacheaware.model.lora.base_model import Base, Found, Matrix
from cacheaware.model.lora.keys import Key, Part, Style, peft_name
from cacheaware.model.lora.matches import FIRST_HALVES, Match, match_of
from cacheaware.model.lora.safetensors_file import write_safetensors
from cacheaware.model.lora.tensors import SIZES, LoraFileError, Tensor, rows_of, transposed
from cacheaware.model.modules import Module

WEIGHTS = "adapter_model.safetensors"
ALPHA_FORMATS = {
    "F64": "<d", "F32": "<f", "F16": "<e", "BF16": "<f",
    "I64": "<q", "I32": "<i", "I16": "<h", "I8": "<b", "U8": "<B",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor under PEFT's key, and the module it changes."""

    tensor: Tensor
    module: str
    part: Part
    alpha: float | None = None
    """The scale's numerator, where the file has one of its own for this module."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a corrected copy holds."""

    placed: tuple[Placed, ...]
    config: dict[str, Any]
    left_out: tuple[tuple[str, str], ...]
    """Keys and why."""


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
    left: list[tuple[str, str]] = []
    parts: dict[tuple[str, Part], list[Match]] = defaultdict(list)
    for one in matches:
        if one.key is None or isinstance(one.found, str):
            if not one.helper:
                left.append((one.tensor.name, one.shown))
        elif one.helper:
            continue
        elif one.found.part is not None:
            parts[one.found.modules[0].name, one.key.part].append(one)
        elif len(one.found.modules) > 1:
            placed += cut(one, base, left, alphas)
        else:
            placed.append(plain(one, one.key, one.found.modules[0], alphas))
    placed += joined(parts, base, left, alphas)
    names = Counter(one.tensor.name for one in placed)
    if twice := [name for name, count in names.items() if count > 1]:
        raise LoraFileError(f"two tensors would be {twice[0]!r}: remove the one that isn't meant")
    if not placed:
        raise LoraFileError("no tensor of it binds: is --config the model it was trained on?")
    return Fixed(tuple(placed), config_for(placed, adapter.config or {}), tuple(left))


def alphas_of(matches: Iterable[Match]) -> dict[str, float]:
    """The `alpha` tensors of kohya's files, by path."""
    return {
        one.key.path: alpha_of(one.tensor)
        for one in matches
        if one.key and one.key.part is Part.ALPHA
    }


def alpha_of(tensor: Tensor) -> float:
    """The one number of an `alpha` tensor.

    Raises:
        LoraFileError: it is not one number: without it the scale isn't known.
    """
    form, data = ALPHA_FORMATS.get(tensor.dtype), tensor.read()
    if tensor.dtype == "BF16":
        data = b"\0\0" + data  # the upper half of a float32
    if form is None or len(data) != calcsize(form):
        raise LoraFileError(
            f"{tensor.name!r} is {tensor.dtype} of shape {list(tensor.shape)}: allowed is one"
            f" number, of {', '.join(ALPHA_FORMATS)}"
        )
    return float(unpack(form, data)[0])


def plain(match: Match, key: Key, module: Module, alphas: Mapping[str, float]) -> Placed:
    """A tensor of one module under its key; transposed where it has to be."""
    name = peft_name(module.name, key.part)
    tensor = (
        transposed(match.tensor, name) if match.transposed else replace(match.tensor, name=name)
    )
    return Placed(tensor, module.name, key.part, alphas.get(key.path))


def cut(
    match: Match, base: Base, left: list[tuple[str, str]], alphas: Mapping[str, float]
) -> list[Placed]:
    """A fusion's tensor for each of its parts: lora_A whole, lora_B by rows."""
    key, found = match.key, match.found
    if key is None or isinstance(found, str):
        return []
    tensor = transposed(match.tensor, match.tensor.name) if match.transposed else match.tensor
    ranges = rows_by_part(key, found, base)
    total = sum(one.outputs for one in found.modules)
    if key.part not in {Part.A, Part.B} or ranges is None:
        left.append((match.tensor.name, "how its rows belong to the parts isn't known"))
        return []
    if key.part is Part.B and tensor.shape[:1] != (total,):
        left.append((match.tensor.name, f"has {tensor.shape[:1]} rows, the parts have {total}"))
        return []
    told = []
    for module, rows in zip(found.modules, ranges, strict=True):
        name = peft_name(module.name, key.part)
        own = replace(tensor, name=name) if key.part is Part.A else rows_of(tensor, name, rows)
        told.append(Placed(own, module.name, key.part, alphas.get(key.path)))
    return told


def rows_by_part(key: Key, found: Found, base: Base) -> list[tuple[tuple[int, int], ...]] | None:
    """Which rows of a fusion belong to which part; None where it isn't known.

    Megatron interleaves queries, key and value by KV group; all others put the parts one after the
    other. https://github.com/NVIDIA/Megatron-LM (megatron/core/transformer/attention.py)
    """
    sizes = [one.outputs for one in found.modules]
    if key.style is Style.MEGATRON and found.matrix is Matrix.QKV:
        groups = base.kv_heads
        if not groups or any(size % groups for size in sizes):
            return None
        widths = [size // groups for size in sizes]
        starts = [sum(widths[:at]) for at in range(len(widths))]
        return [
            tuple(
                (group * sum(widths) + start, group * sum(widths) + start + width)
                for group in range(groups)
            )
            for start, width in zip(starts, widths, strict=True)
        ]
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    return [((end - size, end),) for size, end in zip(sizes, ends, strict=True)]


def joined(
    parts: Mapping[tuple[str, Part], list[Match]], base: Base,
    left: list[tuple[str, str]], alphas: Mapping[str, float],
) -> list[Placed]:  # fmt: skip
    """Parts as one: lora_A stacked, lora_B block by block; the rank is the sum of theirs."""
    told: list[Placed] = []
    for name in sorted({name for name, _ in parts}):
        halves = {part: slots_of(parts.get((name, part), [])) for part in (Part.A, Part.B)}
        matches = [one for part in (Part.A, Part.B) for one in parts.get((name, part), [])]
        left += [
            (one.tensor.name, "a fusion has no place for it")
            for (own, part), some in parts.items()
            if own == name and part not in halves
            for one in some
        ]
        if not matches:
            continue
        first = matches[0]
        sizes = base.part_sizes(first.found) if isinstance(first.found, Found) else None
        if sizes is None or not joinable(halves[Part.A], halves[Part.B], sizes):
            left += [(one.tensor.name, "its parts don't make a whole") for one in matches]
            continue
        down, up = stacked(halves[Part.A], name), blocks(halves[Part.B], name, sizes)
        own = {alphas[one.key.path] for one in matches if one.key and one.key.path in alphas}
        alpha = own.pop() * len(halves[Part.A]) if len(own) == 1 else None
        told += [Placed(down, name, Part.A, alpha), Placed(up, name, Part.B, alpha)]
    return told


def slots_of(matches: list[Match]) -> dict[int, Tensor]:
    """Tensors by which part of the fusion they are."""
    return {
        one.found.part: one.tensor
        for one in matches
        if isinstance(one.found, Found) and one.found.part is not None
    }


def joinable(down: dict[int, Tensor], up: dict[int, Tensor], sizes: tuple[int, ...]) -> bool:
    """Whether the same parts are there twice, of one rank, one type and the right sizes."""
    if set(down) != set(up) or not down:
        return False
    both = [*down.values(), *up.values()]
    if any(len(one.shape) != 2 for one in both) or len({one.dtype for one in both}) != 1:
        return False
    rank = next(iter(down.values())).shape[0]
    inputs = {one.shape for one in down.values()}
    return len(inputs) == 1 and all(one.shape == (sizes[at], rank) for at, one in up.items())


def stacked(down: dict[int, Tensor], name: str) -> Tensor:
    """lora_A of the parts, one below the other."""
    ordered = [down[at] for at in sorted(down)]
    rank, inputs = ordered[0].shape
    return Tensor(
        peft_name(name, Part.A), ordered[0].dtype, (rank * len(ordered), inputs),
        lambda: b"".join(one.read() for one in ordered),
    )  # fmt: skip


def blocks(up: dict[int, Tensor], name: str, sizes: tuple[int, ...]) -> Tensor:
    """lora_B of the parts on the diagonal; rows of parts that are not adapted are zero."""
    present = sorted(up)
    one = up[present[0]]
    rank, size = one.shape[1], SIZES[one.dtype]
    width = rank * size

    def read() -> bytes:
        out = []
        for part, rows in enumerate(sizes):
            data = up[part].read() if part in up else b""
            for row in range(rows):
                for at in present:
                    own = data[row * width : (row + 1) * width] if at == part else b"\0" * width
                    out.append(own)
        return b"".join(out)

    return Tensor(peft_name(name, Part.B), one.dtype, (sum(sizes), rank * len(present)), read)


def config_for(placed: Iterable[Placed], config: Mapping[str, Any]) -> dict[str, Any]:
    """adapter_config.json that fits the tensors: r, alpha, targets; the rest as it was.

    The scale alpha / r of each module stays what it was; where ranks were joined, alpha grows with
    them. Without any word of alpha it is r: a scale of 1.
    """
    found: dict[str, int] = {}
    alphas: dict[str, float] = {}
    for one in placed:
        if one.part in FIRST_HALVES:
            found[one.module] = one.tensor.shape[0]
            if one.alpha is not None:
                alphas[one.module] = one.alpha
    told = dict(config) or {"peft_type": "LORA", "task_type": "CAUSAL_LM", "bias": "none"}
    told.setdefault("peft_type", "LORA")
    if not found:
        return told
    before = config.get("r") if type(config.get("r")) is int else None
    scale = scale_of(config)
    common = Counter(found.values()).most_common(1)[0][0]
    told["r"] = common
    told["target_modules"] = sorted({name.rsplit(".", 1)[-1] for name in found})
    wanted = {
        name: alphas.get(name, scale * rank ** exponent(config) if scale is not None else rank)
        for name, rank in found.items()
    }
    usual = Counter(wanted[name] for name, rank in found.items() if rank == common)
    told["lora_alpha"] = number(usual.most_common(1)[0][0])
    told["rank_pattern"] = {name: rank for name, rank in found.items() if rank != common}
    told["alpha_pattern"] = {
        name: number(alpha) for name, alpha in wanted.items() if number(alpha) != told["lora_alpha"]
    }
    if before == common and not told["rank_pattern"] and "lora_alpha" in config and not alphas:
        told["lora_alpha"], told["alpha_pattern"] = config["lora_alpha"], {}
    return told


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
