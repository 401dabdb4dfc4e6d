"""Reads and writes safetensors: a length, a JSON header with offsets, then the bytes.

The rules are those of the format's own reader: a header of at most 100 MB, and offsets that cover
the rest of the file exactly once. https://github.com/huggingface/safetensors#format
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, TypeGuard

from cacheaware.model.lora.tensors import SIZES, LoraFileError, Tensor

LARGEST_HEADER = 100_000_000
LENGTH = 8
SMALLEST = LENGTH + len("{}")
METADATA = "__metadata__"
MOST_DIMENSIONS = 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor's bytes lie, from the end of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def read_safetensors(path: Path) -> list[Tensor]:
    """The tensors of a file, in the order of their bytes.

    Raises:
        LoraFileError: the header is none, or its offsets don't cover the file exactly once.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH), "little")
        if size < SMALLEST:
            raise LoraFileError(
                f"is no safetensors, a file of {size} bytes: allowed are {SMALLEST} or more, which"
                " a length and a header take"
            )
        if length > min(LARGEST_HEADER, size - LENGTH):
            raise LoraFileError(
                f"the header's length is {length:,} bytes: allowed are at most"
                f" {min(LARGEST_HEADER, size - LENGTH):,} in a file of {size:,}"
            )
        header = file.read(length)
    places = sorted(places_of(header), key=lambda one: (one.start, one.end))
    check_cover(places, size - LENGTH - length)
    base = LENGTH + length
    return [
        Tensor(
            one.name, one.dtype, one.shape, partial(piece, path, base + one.start, base + one.end)
        )
        for one in places
    ]


def piece(path: Path, start: int, end: int) -> bytes:
    """Bytes of a file."""
    with path.open("rb") as file:
        file.seek(start)
        return file.read(end - start)


def places_of(header: bytes) -> list[Place]:
    """What the header says.

    Raises:
        LoraFileError: it is no JSON object of tensors.
    """
    try:
        found = json.loads(header.decode(), object_pairs_hook=unique)
    except RecursionError as error:
        raise LoraFileError("the header is nested too deeply") from error
    except ValueError as error:
        raise LoraFileError(f"the header is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise LoraFileError("the header is no JSON object of tensors")
    check_metadata(found.get(METADATA))
    return [place_of(name, one) for name, one in found.items() if name != METADATA]


def check_metadata(metadata: Any) -> None:
    """Refuse metadata that the format's own reader refuses; none, or null, is well.

    Raises:
        LoraFileError: it is no object of strings.
    """
    if metadata is None:
        return
    if not isinstance(metadata, dict):
        raise LoraFileError(
            f"{METADATA} is {short(metadata)}: allowed is an object whose values are strings"
        )
    for key, value in metadata.items():
        if not isinstance(value, str):
            raise LoraFileError(f"{METADATA}: {short(key)} is {short(value)}: allowed is a string")


def short(value: Any) -> str:
    """A value, cut where it is long."""
    return f"{value!r:.60}"


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys differ: of two equal ones, readers differ in which they take.

    Raises:
        LoraFileError: a key is there twice.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise LoraFileError(f"the header has {twice!r} twice")
    return found


def place_of(name: str, entry: Any) -> Place:
    """One tensor's entry.

    Raises:
        LoraFileError: a field is missing, of another type, or contradicts the others.
    """
    fields = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in SIZES:
        raise LoraFileError(f"{name!r}: dtype is {dtype!r}: allowed are {', '.join(SIZES)}")
    if not counts(shape) or len(shape) > MOST_DIMENSIONS:
        raise LoraFileError(f"{name!r}: shape is {shape!r}: allowed are whole numbers from 0 on")
    if not counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise LoraFileError(f"{name!r}: data_offsets is {offsets!r}: allowed is [begin, end]")
    start, end = offsets
    if end - start != prod(shape) * SIZES[dtype]:
        raise LoraFileError(
            f"{name!r}: {end - start:,} bytes between its data_offsets:"
            f" {dtype} of shape {shape} takes {prod(shape) * SIZES[dtype]:,}"
        )
    return Place(name, dtype, tuple(shape), start, end)


def counts(value: Any) -> TypeGuard[list[int]]:
    """Whether it is a list of whole numbers from 0 on."""
    return isinstance(value, list) and all(type(one) is int and one >= 0 for one in value)


def check_cover(places: list[Place], size: int) -> None:
    """Refuse tensors that overlap, leave holes, or lie outside.

    Raises:
        LoraFileError: they do.
    """
    at = 0
    for one in places:
        if one.start < at:
            raise LoraFileError(f"{one.name!r}: its bytes overlap another tensor's")
        if one.start > at:
            raise LoraFileError(f"{one.name!r}: {one.start - at:,} bytes before it are no tensor's")
        at = one.end
    if at != size:
        raise LoraFileError(f"the tensors end at byte {at:,}, the file's data at {size:,}")


def write_safetensors(path: Path, tensors: Iterable[Tensor], metadata: dict[str, str]) -> None:
    """Write a new file; wide types first, so that each tensor lies aligned."""
    ordered = sorted(tensors, key=lambda one: (-SIZES[one.dtype], one.name))
    header: dict[str, Any] = {METADATA: metadata}
    at = 0
    for one in ordered:
        header[one.name] = {
            "dtype": one.dtype,
            "shape": list(one.shape),
            "data_offsets": [at, at + one.size],
        }
        at += one.size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH)
    with path.open("xb") as file:
        file.write(len(text).to_bytes(LENGTH, "little") + text)
        for one in ordered:
            file.write(one.read())
