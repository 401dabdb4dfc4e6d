"""Stalls on first shapes: kernels that are compiled when traffic first needs them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

LONG_PROMPT_TOKENS = 512
ALIGNMENT = 16


class Shape(StrEnum):
    """A class of work that costs extra the first time."""

    PREFILL = "prefill"
    """The first prompt of all."""
    ALIGNED_PROMPT = "aligned-prompt"
    """The first prompt whose length is a multiple of 16."""
    RAGGED_PROMPT = "ragged-prompt"
    """The first of another length."""
    LONG_PROMPT = "long-prompt"
    """The first prompt longer than 512 tokens."""
    CHUNKED_PREFILL = "chunked-prefill"
    """The first chunk that goes on with a prompt begun in an earlier iteration."""
    PREFIX_HIT = "prefix-hit"
    """The first prompt of which a part is in the prefix cache."""
    BATCHED_DECODE = "batched-decode"
    """The first iteration with two decoding requests or more."""
    STRUCTURED_OUTPUT = "structured-output"
    """The first prompt whose answer has to follow a grammar."""
    LOGPROBS = "logprobs"
    """The first prompt whose answer comes with log probabilities."""


class Chunk(NamedTuple):
    """A part of a prompt that one iteration prefills."""

    start: int
    """Tokens before it."""
    cached: int
    """Of those, found in the prefix cache."""
    prompt: int
    """Tokens of the whole prompt."""
    features: tuple[Shape, ...] = ()
    """What the request uses besides."""


class FirstShapes:
    """Remembers what an engine has not met yet, and what meeting it costs."""

    __slots__ = ("unmet",)

    def __init__(self, stalls_s: Mapping[Shape, float]) -> None:
        self.unmet = {shape: seconds for shape, seconds in stalls_s.items() if seconds > 0}

    def stall_s(self, decodes: int, chunks: list[Chunk]) -> float:
        """Seconds an iteration loses to shapes it meets first."""
        met = {shape for chunk in chunks for shape in _shapes_of(chunk)}
        if decodes > 1:
            met.add(Shape.BATCHED_DECODE)
        return sum(self.unmet.pop(shape, 0.0) for shape in met)


def _shapes_of(chunk: Chunk) -> list[Shape]:
    aligned = chunk.prompt % ALIGNMENT == 0
    shapes = [Shape.PREFILL, Shape.ALIGNED_PROMPT if aligned else Shape.RAGGED_PROMPT]
    if chunk.prompt > LONG_PROMPT_TOKENS:
        shapes.append(Shape.LONG_PROMPT)
    if chunk.start > chunk.cached:
        shapes.append(Shape.CHUNKED_PREFILL)
    if chunk.cached:
        shapes.append(Shape.PREFIX_HIT)
    return [*shapes, *chunk.features]
