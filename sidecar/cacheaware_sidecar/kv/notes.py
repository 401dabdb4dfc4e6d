"""What a person should know about a geometry: assumptions, surprises, unknown parts."""

from collections.abc import Iterator

from cacheaware_sidecar.kv.blocks import DEFAULT_BLOCK_SIZE
from cacheaware_sidecar.kv.errors import shown
from cacheaware_sidecar.kv.families import SPARSE_INDEXED, is_covered
from cacheaware_sidecar.kv.heads import assumes_multi_head
from cacheaware_sidecar.kv.kinds import Kind
from cacheaware_sidecar.kv.layer import Layer
from cacheaware_sidecar.kv.model import Model
from cacheaware_sidecar.kv.model_layers import Setup


def unknown(model: Model, reason: str) -> str:
    """The warning of an architecture that can't be sized."""
    return f"layout of {_name(model)} not supported: {reason}"


def about(setup: Setup, layers: tuple[Layer, ...]) -> tuple[str, ...]:
    """Notes about a model whose layout is known, one line each."""
    return (
        *_about_type(setup.model),
        *_about_heads(setup.model, layers),
        *_about_ranks(setup, layers),
        *_about_windows(setup.model, layers),
        *_about_caches(layers),
        *_about_dtype(setup, layers),
    )


def about_declared(declared: int | None, layers: tuple[Layer, ...]) -> tuple[str, ...]:
    """DeciLM: what its list of heads gives, beside what the engine allocates."""
    if declared is None:
        return ()
    allocated = sum(layer.bytes_per_token for layer in layers)
    note = (
        f"the file's list of KV heads gives {declared:,} B/token; the engine gives every layer "
        f"the most of them: sized with {allocated:,} B/token"
    )
    return (note,)


def about_blocks(requested: int | None, size: int, trouble: str | None) -> tuple[str, ...]:
    """Notes about the block size, and why blocks could not be told."""
    asked = requested or DEFAULT_BLOCK_SIZE
    raised = (
        f"hybrid: the block is raised from {asked} to {size} tokens, until its page covers the "
        f"state; capacity in tokens is not blocks x block size"
    )
    unknown_blocks = f"bytes per block are unknown: {trouble}"
    return tuple(
        note for note, holds in ((raised, size > asked), (unknown_blocks, trouble)) if holds
    )


def _name(model: Model) -> str:
    return f"model_type {shown(model.model_type or model.layout)}"


def _about_type(model: Model) -> Iterator[str]:
    if not model.layout:
        yield "model_type is missing: sized as plain attention"
    elif not is_covered(model.layout):
        yield f"{_name(model)} is not known: sized by its fields like attention per layer"
    if model.defaults and not model.fields.has("num_hidden_layers"):
        yield f"the text part leaves fields out: the defaults of its class ({model.layout}) apply"
    if model.fields.values.get("is_causal") is False:
        yield "is_causal is false: served as an encoder (pooling) it keeps no KV"


def _about_heads(model: Model, layers: tuple[Layer, ...]) -> Iterator[str]:
    with_heads = [layer for layer in layers if layer.total_kv_heads]
    if with_heads and assumes_multi_head(model):
        yield f"no KV heads in the file: multi-head assumed ({with_heads[0].total_kv_heads})"


def _about_ranks(setup: Setup, layers: tuple[Layer, ...]) -> Iterator[str]:
    ranks = setup.parallel.tensor
    fewest = min((layer.total_kv_heads for layer in layers if layer.total_kv_heads), default=ranks)
    if fewest < ranks:
        yield f"{fewest} KV heads on {ranks} ranks: each rank keeps one, so heads are replicated"
    if ranks > 1 and any(layer.kind is Kind.MLA for layer in layers):
        yield f"the latent vector is replicated on each of the {ranks} ranks"


def _about_windows(model: Model, layers: tuple[Layer, ...]) -> Iterator[str]:
    if model.layout == "mistral" and "sliding_window" not in model.fields.values:
        yield "sliding_window is missing: full attention assumed, its class has 4096 by default"
    windowed = [layer for layer in layers if layer.window and layer.counts_tokens]
    if endless := [layer for layer in windowed if layer.grows]:
        yield (
            f"window {endless[0].window} is no shorter than the model's {model.positions} "
            f"positions: effectively full"
        )
    if windowed and not any(layer.grows for layer in layers):
        yield (
            f"every layer has a window: growth stops at {windowed[0].window} tokens, until then "
            f"the rate of all layers applies"
        )
    if any(layer.kind is Kind.CHUNKED and not layer.grows for layer in windowed):
        yield (
            "chunked layers are charged in full by vLLM unless "
            "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE=1: plan with the rate of all layers"
        )


def _about_caches(layers: tuple[Layer, ...]) -> Iterator[str]:
    if any(layer.kind is Kind.ENCODER_ONLY for layer in layers):
        yield "an encoder: it keeps no KV"
    if any(layer.cross_bytes is None for layer in layers):
        yield "the constant cross-attention cache of a request is unknown: not in these figures"
    if any(layer.state_bytes is None for layer in layers):
        yield (
            "a constant state per request adds to this, its size is not told by the file; the "
            "engine may pad pages for it: take the live block size"
        )


def _about_dtype(setup: Setup, layers: tuple[Layer, ...]) -> Iterator[str]:
    name = setup.dtype.name
    if any(layer.indexer_bytes_per_token for layer in layers):
        yield "includes the side cache of the sparse indexer, which the KV dtype does not change"
    if setup.model.layout in SPARSE_INDEXED and name in {"fp8", "fp8_e4m3"}:
        yield (
            "engines may store this model's fp8 cache in the packed format of 656 B a token and "
            "layer: name it with the KV dtype fp8_ds_mla"
        )
    if name.startswith("int") and any(layer.kind is Kind.MLA for layer in layers):
        yield f"no engine read offers {name} for a latent (MLA) cache"
