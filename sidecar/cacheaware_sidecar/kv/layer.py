"""One layer's share of the KV cache on one tensor-parallel rank."""

from dataclasses import dataclass

from cacheaware_sidecar.kv.kinds import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What one layer keeps, on one rank.

    Attributes:
        index: Position in the model, from 0.
        kind: What it keeps.
        total_kv_heads: KV heads over all ranks; 0 where there are none (MLA keeps one vector).
        kv_heads: KV heads on this rank.
        key_size: Values of K (or of the latent vector) per head and token.
        value_size: Values of V per head and token; 0 for MLA.
        cache_bytes_per_token: Bytes of K and V (or the vector) of one token.
        indexer_bytes_per_token: Bytes of a sparse indexer's side cache of one token.
        window: Tokens that a sliding or chunked layer keeps in view.
        grows: Whether it takes more with each token, without a cap below the model's length.
        state_bytes: A state layer's constant per request; None where its sizes are not told.
        source_tokens: A cross-attention layer's constant tokens; None where not told.
        arithmetic: How the bytes come about, for people.
    """

    index: int
    kind: Kind
    total_kv_heads: int = 0
    kv_heads: int = 0
    key_size: int = 0
    value_size: int = 0
    cache_bytes_per_token: int = 0
    indexer_bytes_per_token: int = 0
    window: int | None = None
    grows: bool = False
    state_bytes: int | None = 0
    source_tokens: int | None = 0
    arithmetic: str = ""

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token, side caches included; 0 for states and layers without a cache."""
        return self.cache_bytes_per_token + self.indexer_bytes_per_token

    @property
    def counts_tokens(self) -> bool:
        """Whether it keeps something for tokens of the request itself (not of an encoder)."""
        return self.bytes_per_token > 0 and self.kind is not Kind.CROSS

    @property
    def is_capped(self) -> bool:
        """Whether a window stops its growth."""
        return self.counts_tokens and not self.grows

    @property
    def is_charged_in_full(self) -> bool:
        """Whether the engine reserves it for all tokens: vLLM does so for chunked layers too."""
        return self.counts_tokens and (self.grows or self.kind is Kind.CHUNKED)

    @property
    def window_bytes(self) -> int:
        """The most that a capped layer keeps for one request: window x rate."""
        return self.bytes_per_token * (self.window or 0) if self.is_capped else 0

    @property
    def cross_bytes(self) -> int | None:
        """Constant bytes per request of a cross-attention layer; None where not told."""
        if self.kind is not Kind.CROSS:
            return 0
        return None if self.source_tokens is None else self.bytes_per_token * self.source_tokens
