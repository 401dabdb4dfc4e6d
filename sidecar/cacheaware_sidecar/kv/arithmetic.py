"""How the bytes of a geometry come about, in lines that a person can check with a calculator."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from cacheaware_sidecar.kv.geometry import Geometry
from cacheaware_sidecar.kv.kinds import Kind
from cacheaware_sidecar.kv.layer import Layer
from cacheaware_sidecar.kv.stage import Stage


def arithmetic(geometry: Geometry) -> tuple[str, ...]:
    """One line per kind of layer of the rank in `scope`, then sums, page, block and pod.

    Empty where the architecture is unknown.
    """
    stage = geometry.rank
    if stage is None:
        return ()
    alike = Counter(replace(layer, index=0) for layer in stage.layers)
    return (
        *(_layer_line(layer, count) for layer, count in alike.items()),
        *_sums(stage, len(alike)),
        *_pages(geometry, stage),
        *_pod(geometry),
    )


def _layer_line(layer: Layer, count: int) -> str:
    factors = f"{layer.kind}: {count} layers x {layer.arithmetic}"
    if layer.kind is Kind.STATE:
        size = "" if layer.state_bytes is None else f" = {count * layer.state_bytes:,} B/request"
        return f"{layer.kind}: {count} layers x ({layer.arithmetic}){size}"
    if layer.kind is Kind.CROSS:
        tokens = "unknown" if layer.source_tokens is None else f"{layer.source_tokens:,}"
        size = "" if layer.cross_bytes is None else f" = {count * layer.cross_bytes:,} B/request"
        return f"{factors} x {tokens} source tokens{size}"
    if not layer.bytes_per_token:
        return f"{layer.kind}: {count} layers keep no KV"
    rate = f"{factors} = {count * layer.bytes_per_token:,} B/token"
    if layer.window is None:
        return rate
    if layer.grows:
        return f"{rate} (window {layer.window:,} is never reached)"
    return f"{rate}, x {layer.window:,} tokens at most = {count * layer.window_bytes:,} B/request"


def _sums(stage: Stage, lines: int) -> Iterator[str]:
    everything, growing = stage.bytes_per_token_all_layers, stage.bytes_per_token_growing
    if lines > 1 and everything:
        yield f"sum: {everything:,} B/token in all layers, {growing:,} B/token growing"


def _pages(geometry: Geometry, stage: Stage) -> Iterator[str]:
    pages, size = geometry.page_bytes, geometry.block_size
    if isinstance(pages, tuple):
        least = min(page for page in pages if page)
        yield f"page: {size} tokens, {least:,} to {geometry.largest_page_bytes:,} B by layer"
    elif pages:
        yield f"page: {_tokens(stage, pages, size)} = {pages:,} B"
    if geometry.groups and stage.bytes_per_block:
        count = len(geometry.groups)
        what = "one group of layers" if count == 1 else f"{count} groups of layers in turn"
        yield f"block: {stage.bytes_per_block:,} B behind one block id ({what})"


def _tokens(stage: Stage, page: int, size: int | None) -> str:
    """`16 tokens x 4,096 B`, and what is padded where the state is the larger."""
    rates = sorted({layer.bytes_per_token for layer in stage.layers if layer.bytes_per_token})
    if not rates or size is None or rates[-1] * size != page:
        return "one state"
    return f"{size:,} tokens x {rates[-1]:,} B"


def _pod(geometry: Geometry) -> Iterator[str]:
    parallel = geometry.parallel
    if parallel.tensor * parallel.pipeline == 1:
        return
    rate, block = geometry.pod_bytes_per_token_growing, geometry.pod_bytes_per_block
    blocks = "" if block is None else f", {block:,} B behind one block id"
    yield f"pod ({parallel}): {rate or 0:,} B/token growing{blocks}"
