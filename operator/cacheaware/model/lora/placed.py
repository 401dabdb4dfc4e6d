"""A tensor under PEFT's key, with the scale that its file has for it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from struct import calcsize, unpack

from cacheaware.model.lora.keys import Key, Part, peft_name
from cacheaware.model.lora.matches import Match
from cacheaware.model.lora.tensors import LoraFileError, Tensor, transposed
from cacheaware.model.modules import Module

ALPHA_FORMATS = {
    "F64": "<d", "F32": "<f", "F16": "<e", "BF16": "<f",
    "I64": "<q", "I32": "<i", "I16": "<h", "I8": "<b", "U8": "<B",
}  # fmt: skip
"""How the one number of an `alpha` tensor lies in the file, by its type."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor under PEFT's key, and the module it changes."""

    tensor: Tensor
    module: str
    part: Part
    alpha: float | None = None
    """The scale's numerator, where the file has one of its own for this module."""


def renamed(match: Match, key: Key, module: Module, alphas: Mapping[str, float]) -> Placed:
    """A tensor of one module under its key; transposed where it has to be."""
    name = peft_name(module.name, key.part)
    tensor = (
        transposed(match.tensor, name) if match.transposed else replace(match.tensor, name=name)
    )
    return Placed(tensor, module.name, key.part, alphas.get(key.path))


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
