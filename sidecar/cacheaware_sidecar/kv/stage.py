"""What one rank of a pipeline stage keeps: sums over the layers that lie on it."""

from collections.abc import Iterable
from dataclasses import dataclass

from cacheaware_sidecar.kv.layer import Layer


@dataclass(frozen=True, slots=True)
class Stage:
    """One rank of one pipeline stage: the layers that lie on it, and what a block takes there."""

    layers: tuple[Layer, ...]
    bytes_per_block: int | None

    @property
    def weight(self) -> tuple[int, int, int]:
        """By what stages are compared: the heaviest decides how many blocks there are."""
        state = self.state_bytes_per_sequence or 0
        return (self.bytes_per_block or 0, self.bytes_per_token_all_layers, state)

    @property
    def bytes_per_token_all_layers(self) -> int:
        """Reserved per token while inside every window; cross attention excluded."""
        return sum(layer.bytes_per_token for layer in self.layers if layer.counts_tokens)

    @property
    def bytes_per_token_growing(self) -> int:
        """The rate beyond all windows."""
        return sum(layer.bytes_per_token for layer in self.layers if layer.grows)

    @property
    def bytes_per_token_reserved(self) -> int:
        """What the engine's pool pays per token in the long run.

        The growing rate and chunked layers, which vLLM charges in full; with a window in every
        layer the rate of all layers, which holds until the window.
        """
        reserved = sum(layer.bytes_per_token for layer in self.layers if layer.is_charged_in_full)
        return reserved or self.bytes_per_token_all_layers

    @property
    def window_capped_bytes_per_sequence(self) -> int:
        """Window x rate of the layers that a window caps, not rounded to blocks."""
        return sum(layer.window_bytes for layer in self.layers)

    @property
    def state_bytes_per_sequence(self) -> int | None:
        """Constant states of one request; None where a size is not told."""
        return total(layer.state_bytes for layer in self.layers)

    @property
    def cross_bytes_per_sequence(self) -> int | None:
        """Constant cross-attention cache of one request; None where a size is not told."""
        return total(layer.cross_bytes for layer in self.layers)

    def bytes_per_request(self, tokens: int) -> int | None:
        """Bytes of one request on this rank, exact (not rounded to blocks)."""
        constant = total((self.state_bytes_per_sequence, self.cross_bytes_per_sequence))
        if constant is None:
            return None
        return constant + sum(
            layer.bytes_per_token
            * (tokens if layer.is_charged_in_full else min(tokens, layer.window or 0))
            for layer in self.layers
            if layer.counts_tokens
        )


def total(values: Iterable[int | None]) -> int | None:
    """A sum in which one unknown makes the whole unknown."""
    result = 0
    for value in values:
        if value is None:
            return None
        result += value
    return result
