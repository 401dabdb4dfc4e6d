"""MLA (one latent vector per token) and the side caches of sparse indexers."""

from typing import Final

from cacheaware_sidecar.kv.dtypes import KvDtype, latent_bytes
from cacheaware_sidecar.kv.errors import ConfigError, UnknownLayoutError
from cacheaware_sidecar.kv.families import LATENT, SPARSE_INDEXED
from cacheaware_sidecar.kv.heads import WIDEST
from cacheaware_sidecar.kv.kinds import Kind
from cacheaware_sidecar.kv.layer import Layer
from cacheaware_sidecar.kv.model import MOST_LAYERS, Model

_SCALE_VALUES: Final = 128
"""An indexer key is stored in one byte per value, with an fp32 scale for each 128."""


def is_latent(model: Model) -> bool:
    """Whether the attention layers keep a latent vector: on vLLM's list, and with a rank.

    Raises:
        UnknownLayoutError: A type of the list without a rank, but with widths of its own.
    """
    if model.layout not in LATENT:
        return False
    if model.fields.has("kv_lora_rank"):
        return True
    if any(model.fields.values.get(name) for name in ("qk_nope_head_dim", "v_head_dim")):
        raise UnknownLayoutError("kv_lora_rank is missing, yet qk_nope_head_dim or v_head_dim set")
    return False


def latent_sizes(model: Model) -> tuple[int, int]:
    """kv_lora_rank and qk_rope_head_dim."""
    rank = model.fields.required("kv_lora_rank", high=WIDEST)
    return rank, model.fields.required("qk_rope_head_dim", low=0, high=WIDEST)


def latent_layer(model: Model, dtype: KvDtype, index: int) -> Layer:
    """One MLA layer: the same on every tensor-parallel rank, whatever their number."""
    rank, rope = latent_sizes(model)
    size = latent_bytes(dtype, rank, rope)
    indexer = _latent_indexer(model, index)
    text = f"({rank} + {rope}) x {dtype.value_bytes} B"
    if dtype.latent_bytes:
        text = f"{size} B ({dtype.name}, {rank} + {rope} values)"
    return Layer(
        index=index,
        kind=Kind.MLA,
        key_size=rank + rope,
        cache_bytes_per_token=size,
        indexer_bytes_per_token=indexer,
        grows=True,
        arithmetic=f"({text} + {indexer} B indexer)" if indexer else text,
    )


def _latent_indexer(model: Model, index: int) -> int:
    """Bytes per token of DeepSeek-V3.2's indexer on this layer; GLM-5.2 shares it among four."""
    if model.layout not in SPARSE_INDEXED or not _owns_indexer(model, index):
        return 0
    size = model.fields.required("index_head_dim", high=WIDEST)
    if size % _SCALE_VALUES:
        raise ConfigError(
            f"{model.fields.path}index_head_dim is {size}: allowed are multiples of {_SCALE_VALUES}"
        )
    return size + size // _SCALE_VALUES * 4


def _owns_indexer(model: Model, index: int) -> bool:
    if model.fields.has("indexer_types"):
        entry = model.fields.entries("indexer_types", model.layers)[index]
        if entry not in ("full", "shared"):
            raise UnknownLayoutError(f"indexer_types[{index}] is neither full nor shared")
        return bool(entry == "full")
    if model.fields.values.get("index_topk_pattern"):
        raise UnknownLayoutError("index_topk_pattern tells which layers have an indexer")
    every = model.fields.integer("index_topk_freq", high=MOST_LAYERS) or 1
    offset = model.fields.integer("index_skip_topk_offset", low=0, high=MOST_LAYERS) or 1
    return max(index - offset + 1, 0) % every == 0


def sparse_indexers(model: Model) -> tuple[int, ...]:
    """MiniMax-M3: bytes per token of the index keys of each layer, 16 bit; 0 elsewhere."""
    sparse = model.fields.child("sparse_attention_config")
    if sparse is None or sparse.flag("use_sparse_attention") is False:
        return (0,) * model.layers
    size = sparse.required("sparse_index_dim", high=WIDEST)
    flags = sparse.integers("sparse_attention_freq", model.layers, high=1)
    if sparse.has("sparse_disable_index_value"):
        keys_only = sparse.integers("sparse_disable_index_value", model.layers, high=1)
        if any(flag and not only for flag, only in zip(flags, keys_only, strict=True)):
            raise UnknownLayoutError("sparse_disable_index_value keeps index values too")
    return tuple(flag * size * 2 for flag in flags)
