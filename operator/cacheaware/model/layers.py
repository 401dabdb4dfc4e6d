"""What one layer does: its attention or state, its feed-forward part, its modules."""

from dataclasses import dataclass

from cacheaware.model.modules import Module
from cacheaware_sidecar.kv import Kind


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with heads.

    Attributes:
        kind: Full, sliding or chunked (what the KV package says of the layer).
        heads: Query heads.
        kv_heads: Key and value heads.
        key_size: Width of a head's query and key.
        value_size: Width of a head's value.
        window: Tokens in view; None for all.
        gated: Whether a gate as wide as the heads multiplies the output (Qwen3-Next).
    """

    kind: Kind
    heads: int
    kv_heads: int
    key_size: int
    value_size: int
    window: int | None = None
    gated: bool = False

    @property
    def word(self) -> str:
        """MHA, MQA or GQA."""
        if self.kv_heads == self.heads:
            return "MHA"
        return "MQA" if self.kv_heads == 1 else "GQA"


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention (MLA).

    Attributes:
        heads: Query heads.
        query_rank: Width of the compressed query; None where it is not compressed.
        rank: Width of the latent vector that is cached.
        nope: Width of a head's query and key without positions.
        rope: Width of the part with positions; its key is shared by all heads and cached.
        value: Width of a head's value.
        selected: Tokens that a sparse indexer picks for each query; None without one.
        index_heads: Heads of that indexer; 0 without one.
        index_size: Width of an indexer's head.
    """

    heads: int
    query_rank: int | None
    rank: int
    nope: int
    rope: int
    value: int
    selected: int | None = None
    index_heads: int = 0
    index_size: int = 0

    @property
    def word(self) -> str:
        """The name of the field."""
        return "MLA"


@dataclass(frozen=True, slots=True)
class StateMixer:
    """A recurrent state instead of attention: Mamba or a linear attention.

    Attributes:
        word: `mamba`, `mamba2` or `gated delta`.
        elements: Values of the recurrent state, over all heads.
        flops_per_element: Operations on each of them for one token.
        channels: Channels of the short convolution before it.
        taps: Its length.
    """

    word: str
    elements: int
    flops_per_element: int
    channels: int
    taps: int


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A dense feed-forward part.

    Attributes:
        size: Inner size.
        gated: Whether a gate multiplies the inner values (SwiGLU, GeGLU).
    """

    size: int
    gated: bool


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts.

    Attributes:
        count: Routed experts.
        top_k: Routed experts that a token goes through.
        size: Inner size of one.
        gated: Whether they are gated.
        shared_size: Inner size of what every token goes through beside them, all together.
    """

    count: int
    top_k: int
    size: int
    gated: bool
    shared_size: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer.

    Attributes:
        index: Position, from 0.
        mixer: What moves information between tokens; None in layers that have only the rest.
        feed: The feed-forward part; None in layers that have only a mixer.
        modules: All that has weights.
    """

    index: int
    mixer: Attention | Latent | StateMixer | None
    feed: FeedForward | Experts | None
    modules: tuple[Module, ...]
