"""A tensor of an adapter file: what the file says about it, and its bytes when they are asked for.

Adapters are small and only few questions are asked of their values, so bytes do: nothing here needs
an array library.
"""

import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

SIZES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1,
    "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4,
    "I64": 8, "U64": 8, "F64": 8,
}  # fmt: skip
"""Bytes of an element, by safetensors' name of its type."""
EXPONENTS = {"F16": 0x7C00, "BF16": 0x7F80, "F32": 0x7F80, "F64": 0x7FF0}
"""The exponent's bits in the highest 16 bits of an element: all set, it is Inf or NaN."""
EIGHT_BIT_FLOATS = frozenset({"F8_E4M3", "F8_E5M2"})
SIGN = 0x8000


class LoraFileError(Exception):
    """The file can't be read, in one line."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor, row by row and little-endian."""

    name: str
    dtype: str
    """A key of SIZES."""
    shape: tuple[int, ...]
    read: Callable[[], bytes]

    @property
    def size(self) -> int:
        """Bytes."""
        return prod(self.shape) * SIZES[self.dtype]


@dataclass(frozen=True, slots=True)
class Values:
    """What the values of a tensor show; None where the type is no float of 16 bits or more."""

    zero: bool | None
    finite: bool | None


def values_of(tensor: Tensor) -> Values:
    """Whether all elements are zero, and whether all are finite.

    Compares sets of 16-bit words, which takes no loop over the elements.
    """
    exponent = EXPONENTS.get(tensor.dtype)
    if exponent is None:
        return Values(None, None)
    words = array("H", tensor.read())
    if sys.byteorder == "big":  # pragma: no cover - no such machine runs the tests
        words.byteswap()
    step = SIZES[tensor.dtype] // 2
    highest = set(words[step - 1 :: step])
    rest = {word for at in range(step - 1) for word in set(words[at::step])}
    zero = highest <= {0, SIGN} and rest <= {0}
    return Values(zero, all(word & exponent != exponent for word in highest))


def transposed(tensor: Tensor, name: str) -> Tensor:
    """A matrix with rows and columns exchanged."""
    rows, columns = tensor.shape
    size = SIZES[tensor.dtype]

    def read() -> bytes:
        data = tensor.read()
        width = columns * size
        return b"".join(
            data[row * width + at : row * width + at + size]
            for at in range(0, width, size)
            for row in range(rows)
        )

    return Tensor(name, tensor.dtype, (columns, rows), read)


def rows_of(tensor: Tensor, name: str, ranges: tuple[tuple[int, int], ...]) -> Tensor:
    """Some rows of a tensor, as half-open ranges in the order wanted."""
    width = prod(tensor.shape[1:]) * SIZES[tensor.dtype]

    def read() -> bytes:
        data = tensor.read()
        return b"".join(data[start * width : end * width] for start, end in ranges)

    count = sum(end - start for start, end in ranges)
    return Tensor(name, tensor.dtype, (count, *tensor.shape[1:]), read)
