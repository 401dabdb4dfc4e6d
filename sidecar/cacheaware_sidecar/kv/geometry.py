"""Geometry: what a model's config.json says about KV memory, in bytes, pages and blocks."""

from collections.abc import Callable
from dataclasses import dataclass

from cacheaware_sidecar.kv.blocks import BATCHED_TOKENS, STATE_BLOCKS, Group, cdiv, page_bytes
from cacheaware_sidecar.kv.layer import Layer
from cacheaware_sidecar.kv.parallel import Parallel
from cacheaware_sidecar.kv.stage import Stage, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """The KV memory of one model under one set of parallel sizes, dtype and block size.

    Bytes are per rank: one tensor-parallel rank of the largest pipeline stage (the tightest one
    decides how many blocks there are). `pod_...` are sums over all ranks of all stages. With
    decode context parallelism a rate is that of a token on a rank that holds it. All byte
    figures are None where the architecture is unknown.

    Attributes:
        model_type: `model_type` of the file.
        unknown_reason: Why the architecture can't be sized; None where it is known.
        parallel: Tensor, pipeline and decode-context sizes.
        kv_dtype: The storage format, `auto` resolved.
        layers: Number of layers of the model; None if an unknown architecture doesn't tell.
        heads: Query heads; a tuple where layers differ; None if not told.
        layer_list: Each layer with what it keeps on one rank; empty if unknown.
        stages: One rank of each pipeline stage.
        block_size: Tokens per block of a rank; for hybrids raised to cover the state page.
        groups: The engine's groups of layers; None where they can't be told.
        declared_bytes_per_token: By the file's own list of heads, where the engine allocates
            more (DeciLM); else None.
        warnings: What a person should know about these figures, one line each.
    """

    model_type: str | None
    unknown_reason: str | None
    parallel: Parallel
    kv_dtype: str
    layers: int | None
    heads: int | tuple[int, ...] | None
    layer_list: tuple[Layer, ...] = ()
    stages: tuple[Stage, ...] = ()
    block_size: int | None = None
    groups: tuple[Group, ...] | None = None
    declared_bytes_per_token: int | None = None
    warnings: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether the rules cover the architecture."""
        return self.unknown_reason is None

    @property
    def rank(self) -> Stage | None:
        """The stage whose ranks take most: its figures are this geometry's per-rank figures."""
        return max(self.stages, key=lambda stage: stage.weight, default=None)

    @property
    def scope(self) -> str:
        """What the per-rank figures are about, in words."""
        return f"per rank of the largest pipeline stage ({self.parallel})"

    @property
    def kv_heads(self) -> int | tuple[int, ...] | None:
        """KV heads over all ranks; a tuple with one entry per layer where they differ."""
        return _alike([layer.total_kv_heads for layer in self.layer_list])

    @property
    def head_dim(self) -> int | tuple[int, ...] | None:
        """Width of a head's K (of the latent vector for MLA); a tuple where layers differ."""
        return _alike([layer.key_size for layer in self.layer_list])

    @property
    def page_bytes(self) -> int | tuple[int, ...] | None:
        """One block of one layer on one rank; a tuple with one entry per layer where they differ.

        Side caches of indexers included. A layer that keeps nothing has 0 in the tuple.
        """
        return _alike(self._pages())

    @property
    def largest_page_bytes(self) -> int | None:
        """The largest page of any layer."""
        return max(self._pages(), default=None) if self.known else None

    def _pages(self) -> list[int]:
        return [page or 0 for page in page_bytes(self.layer_list, self.block_size or 0)]

    @property
    def bytes_per_token_all_layers(self) -> int | None:
        """Reserved per token while inside every window; cross attention excluded."""
        return self._of_rank(lambda stage: stage.bytes_per_token_all_layers)

    @property
    def bytes_per_token_growing(self) -> int | None:
        """The rate beyond all windows; 0 where every layer has one."""
        return self._of_rank(lambda stage: stage.bytes_per_token_growing)

    @property
    def bytes_per_token_reserved(self) -> int | None:
        """What the pool pays per token: growing and chunked layers, or all if all slide."""
        return self._of_rank(lambda stage: stage.bytes_per_token_reserved)

    @property
    def window_capped_bytes_per_sequence(self) -> int | None:
        """Window x rate of the layers that a window caps."""
        return self._of_rank(lambda stage: stage.window_capped_bytes_per_sequence)

    @property
    def state_bytes_per_sequence(self) -> int | None:
        """Constant states of one request; None also where a size is not told."""
        return self._of_rank(lambda stage: stage.state_bytes_per_sequence)

    @property
    def cross_bytes_per_sequence(self) -> int | None:
        """Constant cross-attention cache of one request; None also where not told."""
        return self._of_rank(lambda stage: stage.cross_bytes_per_sequence)

    @property
    def bytes_per_block(self) -> int | None:
        """Bytes behind one engine block id on one rank."""
        return self._of_rank(lambda stage: stage.bytes_per_block)

    @property
    def pod_bytes_per_token_all_layers(self) -> int | None:
        """`bytes_per_token_all_layers` over all ranks of the pod."""
        return self._pod_rate(lambda stage: stage.bytes_per_token_all_layers)

    @property
    def pod_bytes_per_token_growing(self) -> int | None:
        """`bytes_per_token_growing` over all ranks of the pod."""
        return self._pod_rate(lambda stage: stage.bytes_per_token_growing)

    @property
    def pod_bytes_per_token_reserved(self) -> int | None:
        """`bytes_per_token_reserved` over all ranks of the pod."""
        return self._pod_rate(lambda stage: stage.bytes_per_token_reserved)

    @property
    def pod_window_capped_bytes_per_sequence(self) -> int | None:
        """`window_capped_bytes_per_sequence` over all ranks of the pod."""
        return self._pod_sum(lambda stage: stage.window_capped_bytes_per_sequence)

    @property
    def pod_state_bytes_per_sequence(self) -> int | None:
        """`state_bytes_per_sequence` over all ranks of the pod."""
        return self._pod_sum(lambda stage: stage.state_bytes_per_sequence)

    @property
    def pod_bytes_per_block(self) -> int | None:
        """Bytes behind one engine block id over all ranks of the pod."""
        return self._pod_sum(lambda stage: stage.bytes_per_block)

    def _of_rank(self, figure: Callable[[Stage], int | None]) -> int | None:
        return figure(self.rank) if self.rank else None

    def _pod_sum(self, figure: Callable[[Stage], int | None]) -> int | None:
        result = total(figure(stage) for stage in self.stages) if self.stages else None
        return None if result is None else result * self.parallel.tensor

    def _pod_rate(self, figure: Callable[[Stage], int | None]) -> int | None:
        """Of decode-context ranks only one holds a token."""
        result = self._pod_sum(figure)
        return None if result is None else result // self.parallel.decode_context

    def blocks_per_request(
        self,
        tokens: int,
        max_num_batched_tokens: int = BATCHED_TOKENS,
        state_blocks: int = STATE_BLOCKS,
    ) -> int | None:
        """Engine blocks of one request: the sum over groups of its blocks of this many tokens.

        Args:
            tokens: Prompt and generated tokens of the request.
            max_num_batched_tokens: The engine's option; bounds a sliding group's blocks.
            state_blocks: Blocks of a state group: 2 in mode `align` (with prefix caching; more
                with speculative tokens), 1 in mode `none`.
        """
        if self.groups is None:
            return None
        ranks = self.parallel.decode_context
        return total(
            group.blocks(tokens, max_num_batched_tokens, state_blocks, ranks)
            for group in self.groups
        )

    def bytes_per_request(self, tokens: int) -> int | None:
        """Bytes of one request on one rank, exact (not rounded to blocks), windows applied."""
        return self._of_rank(lambda stage: stage.bytes_per_request(self._on_one_rank(tokens)))

    def bytes_from_tokens(self, tokens: int) -> int | None:
        """Bytes that this many cached tokens take on one rank, at the reserved rate."""
        rate = self.bytes_per_token_reserved
        return rate and self._on_one_rank(tokens) * rate

    def tokens_from_bytes(self, available: int) -> int | None:
        """Tokens that fit into the bytes of one rank, at the reserved rate; None if no rate."""
        rate = self.bytes_per_token_reserved
        return available // rate * self.parallel.decode_context if rate else None

    def blocks_from_bytes(self, available: int) -> int | None:
        """Engine blocks that fit into the bytes of one rank: vLLM's `num_gpu_blocks`."""
        return available // self.bytes_per_block if self.bytes_per_block else None

    def tokens_in_blocks(
        self,
        blocks: int,
        max_model_len: int | None = None,
        max_num_batched_tokens: int = BATCHED_TOKENS,
        state_blocks: int = STATE_BLOCKS,
    ) -> int | None:
        """Tokens that this many blocks hold: vLLM's `kv_cache_size_tokens`.

        Blocks x block size with one group; with several, how often a request of the greatest
        length fits, times that length (None if the length is not given).
        """
        if self.groups is not None and len(self.groups) == 1 and self.groups[0].block_size:
            return blocks * self.groups[0].block_size * self.parallel.decode_context
        if not max_model_len:
            return None
        each = self.blocks_per_request(max_model_len, max_num_batched_tokens, state_blocks)
        return blocks * max_model_len // each if each else None

    def _on_one_rank(self, tokens: int) -> int:
        return cdiv(tokens, self.parallel.decode_context)


def _alike(values: list[int]) -> int | tuple[int, ...] | None:
    """The one value that all entries but zeros share, else all of them; None without any."""
    distinct = set(values) - {0}
    if len(distinct) == 1:
        return distinct.pop()
    return tuple(values) if distinct else None
