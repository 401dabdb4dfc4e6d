"""What one step of an engine asks of the hardware: operations, bytes, tokens in view."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cacheaware_sidecar.kv.errors import refusal
from cacheaware_sidecar.kv.fields import whole

MOST_TOKENS: Final = 100_000_000


class Phase(StrEnum):
    """The two kinds of step."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: `batch` sequences that compute `new` tokens each on `context` cached ones.

    Raises:
        ConfigError: A number that can't be.
    """

    phase: Phase
    new: int
    context: int
    batch: int

    def __post_init__(self) -> None:
        whole("prompt", self.new, 1, MOST_TOKENS)
        whole("context", self.context, 0, MOST_TOKENS)
        whole("batch", self.batch, 1, 1_000_000)
        if self.phase is Phase.DECODE and self.new != 1:
            raise refusal("prompt", self.new, "a decode step computes one token per sequence")

    @property
    def tokens(self) -> int:
        """Tokens computed, over all sequences."""
        return self.batch * self.new

    def pairs(self, window: int | None) -> int:
        """Query-key pairs of one sequence that a causal mask leaves, in a sliding window."""
        if window is None:
            return self.new * self.context + self.new * (self.new + 1) // 2
        short = max(0, min(self.new, window - self.context))
        return short * self.context + short * (short + 1) // 2 + (self.new - short) * window

    def chunked_pairs(self, chunk: int) -> int:
        """Query-key pairs of one sequence where attention stays inside its chunk (Llama-4)."""
        return _chunked(self.context + self.new, chunk) - _chunked(self.context, chunk)

    def in_view(self, window: int | None) -> int:
        """Cached tokens of one sequence that this step reads, its own included."""
        seen = self.context + self.new
        return seen if window is None else min(seen, window - 1 + self.new)

    def in_chunks(self, chunk: int) -> int:
        """The same where attention stays inside its chunk."""
        return self.context % chunk + self.new


def _chunked(tokens: int, chunk: int) -> int:
    whole_chunks, rest = divmod(tokens, chunk)
    return whole_chunks * chunk * (chunk + 1) // 2 + rest * (rest + 1) // 2


class Part(StrEnum):
    """The parts of a step, as rows of the walk."""

    EMBEDDING = "embedding"
    NORM = "norm"
    QKV = "qkv"
    QK_NORM = "qk norm"
    ROPE = "rope"
    CACHE = "kv write"
    INDEXER = "indexer"
    ATTENTION = "attention"
    STATE = "state"
    OUTPUT = "output"
    ROUTER = "router"
    FFN = "ffn"
    EXPERTS = "experts"
    SHARED = "shared expert"
    ACTIVATION = "activation"
    HEAD = "head"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of one layer on one rank.

    Attributes:
        name: As shown: the part, with what tells it from others of the model.
        part: What it is.
        shape: Shapes, rows x columns of the whole operation's share on this rank.
        dtype: What it is computed in: a key of `Gpu.tflops`.
        parameters: Of its modules, over all ranks.
        flops: On this rank; a multiply and an add are two.
        weight_bytes: Read on this rank.
        activation_bytes: Read and written on this rank.
        stored: How its weights are stored; None without a matrix.
        kv_read: Bytes of KV cache or state read.
        kv_written: Bytes of KV cache or state written.
        saved: Bytes that the usual fused kernel does not move (the scores of attention).
    """

    name: str
    part: Part
    shape: str
    dtype: str
    parameters: int
    flops: int
    weight_bytes: int
    activation_bytes: int
    stored: str | None = None
    kv_read: int = 0
    kv_written: int = 0
    saved: int = 0

    @property
    def moved(self) -> int:
        """All bytes to and from memory."""
        return self.weight_bytes + self.activation_bytes + self.kv_read + self.kv_written

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flops / self.moved if self.moved else 0.0
