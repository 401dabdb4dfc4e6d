"""Tensors of a fusion that the base model has apart, and of parts that it has in one."""

from collections.abc import Mapping
from dataclasses import replace

from cacheaware.model.lora.base_model import Base, Found, Matrix
from cacheaware.model.lora.keys import Key, Part, Style, peft_name
from cacheaware.model.lora.matches import Match
from cacheaware.model.lora.placed import Placed
from cacheaware.model.lora.tensors import SIZES, Tensor, rows_of, transposed

LeftOut = tuple[str, str]
"""A key, and why it has no place."""


def cut(
    match: Match, base: Base, alphas: Mapping[str, float]
) -> tuple[list[Placed], list[LeftOut]]:
    """A fusion's tensor for each of its parts: lora_A whole, lora_B by rows."""
    key, found = match.key, match.found
    if key is None or isinstance(found, str):
        return [], []
    tensor = transposed(match.tensor, match.tensor.name) if match.transposed else match.tensor
    ranges = rows_by_part(key, found, base)
    total = sum(one.outputs for one in found.modules)
    if key.part not in {Part.A, Part.B} or ranges is None:
        return [], [(match.tensor.name, "how its rows belong to the parts isn't known")]
    if key.part is Part.B and tensor.shape[:1] != (total,):
        why = f"has {tensor.shape[:1]} rows, the parts have {total}"
        return [], [(match.tensor.name, why)]
    told = []
    for module, rows in zip(found.modules, ranges, strict=True):
        name = peft_name(module.name, key.part)
        own = replace(tensor, name=name) if key.part is Part.A else rows_of(tensor, name, rows)
        told.append(Placed(own, module.name, key.part, alphas.get(key.path)))
    return told, []


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
    parts: Mapping[tuple[str, Part], list[Match]], base: Base, alphas: Mapping[str, float]
) -> tuple[list[Placed], list[LeftOut]]:
    """Parts as one: lora_A stacked, lora_B block by block; the rank is the sum of theirs."""
    told: list[Placed] = []
    left: list[LeftOut] = []
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
    return told, left


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
