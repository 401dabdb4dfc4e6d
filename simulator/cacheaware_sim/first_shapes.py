"""Stalls on first shapes: kernels that are compiled when traffic first needs them."""

from collections.abc import Mapping
from enum import StrEnum

LONG_PROMPT_TOKENS = 512


class Shape(StrEnum):
    """A class of work that costs extra the first time."""

    PREFILL = "prefill"
    """The first prompt of all."""
    LONG_PROMPT = "long-prompt"
    """The first prompt longer than 512 tokens."""
    CHUNKED_PREFILL = "chunked-prefill"
    """The first chunk that goes on with a prompt begun in an earlier iteration."""
    PREFIX_HIT = "prefix-hit"
    """The first prompt of which a part is in the prefix cache."""
    BATCHED_DECODE = "batched-decode"
    """The first iteration with two decoding requests or more."""


class FirstShapes:
    """Remembers what an engine has not met yet, and what meeting it costs."""

    __slots__ = ("unmet",)

    def __init__(self, stalls_s: Mapping[Shape, float]) -> None:
        self.unmet = {shape: seconds for shape, seconds in stalls_s.items() if seconds > 0}

    def stall_s(self, decodes: int, chunks: list[tuple[int, int, int]]) -> float:
        """Seconds an iteration loses to shapes it meets first.

        Args:
            decodes: Decoding requests in the iteration.
            chunks: Of each prefill chunk (start, tokens from the prefix cache, prompt tokens).
        """
        met = {shape for chunk in chunks for shape in _shapes_of_chunk(*chunk)}
        if decodes > 1:
            met.add(Shape.BATCHED_DECODE)
        return sum(self.unmet.pop(shape, 0.0) for shape in met)


def _shapes_of_chunk(start: int, cached: int, prompt: int) -> list[Shape]:
    shapes = [Shape.PREFILL]
    if prompt > LONG_PROMPT_TOKENS:
        shapes.append(Shape.LONG_PROMPT)
    if start > cached:
        shapes.append(Shape.CHUNKED_PREFILL)
    if cached:
        shapes.append(Shape.PREFIX_HIT)
    return shapes
