"""Blocks: the engine's allocation unit, its groups of layers and the page alignment of hybrids.

After vLLM's `kv_cache_utils.py` and `HybridAttentionMambaModelConfig`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cacheaware_sidecar.kv.errors import UnknownLayoutError
from cacheaware_sidecar.kv.kinds import Kind
from cacheaware_sidecar.kv.layer import Layer

DEFAULT_BLOCK_SIZE: Final = 16
BATCHED_TOKENS: Final = 8192
"""max_num_batched_tokens: how far a prefill step runs ahead of a window."""
STATE_BLOCKS: Final = 2
"""Blocks of a state group per request in mode `align`, the choice with prefix caching on."""
_ALIGNMENT: Final = 16
_LATENT_ALIGNMENT: Final = 128
_UNIFORM: Final = 1.5
"""Below this ratio of layer counts the larger one becomes the group size."""


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share one block id at a time.

    Attributes:
        kind: Their kind; MLA and chunked layers are grouped like full ones.
        layers: Positions in the model's tuple of layers.
        block_size: Tokens of a block of this group on one rank; None for states.
        page_bytes: Bytes of one block of one layer, in the order of `layers`.
        window: Window of sliding layers.
        source_tokens: Constant tokens of cross-attention layers; None where not told.
    """

    kind: Kind
    layers: tuple[int, ...]
    block_size: int | None
    page_bytes: tuple[int, ...]
    window: int | None = None
    source_tokens: int | None = 0

    def blocks(self, tokens: int, batched_tokens: int, state_blocks: int, ranks: int) -> int | None:
        """Blocks that one request of this many tokens holds; `ranks` share its tokens (DCP)."""
        if self.block_size is None:
            return state_blocks
        if self.kind is Kind.CROSS:
            return None if self.source_tokens is None else cdiv(self.source_tokens, self.block_size)
        needed = cdiv(tokens, self.block_size * ranks)
        if self.window is None:
            return needed
        return min(needed, cdiv(self.window - 1 + batched_tokens, self.block_size) + 1)

    def bytes_in(self, stage: Iterable[int]) -> int:
        """Bytes behind one block id for the layers that lie on a pipeline stage."""
        held = frozenset(stage)
        return sum(
            page for at, page in zip(self.layers, self.page_bytes, strict=True) if at in held
        )


def effective_block_size(layers: tuple[Layer, ...], requested: int | None) -> int:
    """Tokens of a block: as told, raised for hybrids until its page covers the state.

    Multiples of 16; of 128 with MLA (backends take no other).
    """
    size = requested or DEFAULT_BLOCK_SIZE
    states = [layer.state_bytes for layer in layers if layer.state_bytes]
    rates = [layer.bytes_per_token for layer in layers if layer.counts_tokens]
    if not states or not rates:
        return size
    latent = any(layer.kind is Kind.MLA for layer in layers)
    step = _LATENT_ALIGNMENT if latent else _ALIGNMENT
    return max(size, cdiv(cdiv(max(states), min(rates)), step) * step)


def page_bytes(layers: tuple[Layer, ...], block_size: int) -> tuple[int | None, ...]:
    """One block of each layer; states are padded to the attention page, None if unknown."""
    pages = [layer.bytes_per_token * block_size for layer in layers]
    largest = max(pages, default=0)
    return tuple(
        (layer.state_bytes and max(largest, layer.state_bytes))
        if layer.kind is Kind.STATE
        else page
        for layer, page in zip(layers, pages, strict=True)
    )


def cache_groups(layers: tuple[Layer, ...], block_size: int) -> tuple[Group, ...]:
    """How the engine groups the layers behind its block ids.

    Layers that all grow share one group, whatever their sizes. Otherwise layers of one spec are
    dealt out to groups of equal size: the smallest count of layers of a spec, or the largest
    where that is less than 1.5 times as many. Smaller pages get longer blocks.

    Raises:
        UnknownLayoutError: A state of unknown size, or pages that can't be made equal.
    """
    specs = _specs(layers)
    if len(specs) > 1 and any(kind is not Kind.FULL for kind, _, _ in specs):
        return tuple(_dealt(layers, specs, block_size))
    members = [at for spec in specs.values() for at in spec]
    return (_group(layers, sorted(members), block_size, None),) if members else ()


_Spec = tuple[Kind, int | None, int]


def _specs(layers: tuple[Layer, ...]) -> dict[_Spec, list[int]]:
    specs: dict[_Spec, list[int]] = {}
    for at, layer in enumerate(layers):
        if layer.state_bytes is None:
            raise UnknownLayoutError("the size of the state is not told")
        if size := layer.bytes_per_token or layer.state_bytes:
            specs.setdefault((_class(layer), _class_window(layer), size), []).append(at)
    return specs


def _class(layer: Layer) -> Kind:
    return layer.kind if layer.kind in {Kind.SLIDING, Kind.STATE, Kind.CROSS} else Kind.FULL


def _class_window(layer: Layer) -> int | None:
    return layer.window if layer.kind is Kind.SLIDING else None


def _dealt(
    layers: tuple[Layer, ...], specs: dict[_Spec, list[int]], block_size: int
) -> Iterable[Group]:
    counts = [len(members) for members in specs.values()]
    size = max(counts) if max(counts) < _UNIFORM * min(counts) else min(counts)
    page = max(page or 0 for page in page_bytes(layers, block_size))
    for members in specs.values():
        parts = cdiv(len(members), size)
        for part in range(parts):
            yield _group(layers, members[part::parts], block_size, page)


def _group(
    layers: tuple[Layer, ...], members: list[int], block_size: int, page: int | None
) -> Group:
    """A group whose pages are all `page` (its block grows to fill it), or as they come."""
    first = layers[members[0]]
    rate = first.bytes_per_token
    if page and rate and page % (rate * block_size):
        raise UnknownLayoutError(
            f"pages of {rate * block_size:,} and {page:,} B can't be made equal"
        )
    tokens = (page // rate if page else block_size) if rate else None
    sizes = [
        page or layers[at].bytes_per_token * block_size or layers[at].state_bytes or 0
        for at in members
    ]
    return Group(
        kind=_class(first),
        layers=tuple(members),
        block_size=tokens,
        page_bytes=tuple(sizes),
        window=_class_window(first),
        source_tokens=first.source_tokens,
    )


def cdiv(value: int, by: int) -> int:
    """Division, rounded up."""
    return -(-value // by)
