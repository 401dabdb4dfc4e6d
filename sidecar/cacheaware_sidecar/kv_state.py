"""From an engine's sample to the state of the pod's KV cache: tokens, bytes, pages."""

from typing import Protocol

from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.pod_state import KvState


class Geometry(Protocol):
    """What is needed of a model's KV geometry, `cacheaware_sidecar.kv.Geometry`."""

    @property
    def pod_bytes_per_token_growing(self) -> float:
        """Bytes that one more token costs on all ranks of an engine together."""

    @property
    def pod_bytes_per_block(self) -> int | None:
        """Bytes of one block id on all ranks together; None unless all layers share one group."""

    @property
    def block_size(self) -> int:
        """Tokens per block that the geometry was computed for."""

    @property
    def largest_page_bytes(self) -> int | None:
        """One block of one layer on one rank; the largest where layers differ."""


def kv_state(sample: EngineSample, geometry: Geometry | None) -> KvState:
    """The KV cache of a pod.

    Capacity in bytes is, first that is there: what the engine reports; blocks x bytes per block;
    tokens x the growing bytes per token, which is an estimate. Used bytes are the engine's, or
    the same share of that capacity as of the tokens.

    Args:
        sample: What the metrics page said.
        geometry: Of the model at the sample's block size; None where no config is known, and
            then bytes are known only if the engine tells them.
    """
    capacity, estimated = sample.capacity_bytes, False
    if capacity is None and geometry is not None:
        capacity, estimated = _capacity_bytes(sample, geometry)
    used = sample.used_bytes
    if used is None and capacity is not None and sample.usage is not None:
        used = sample.usage * capacity
    return KvState(
        usage=sample.usage,
        usage_max=sample.usage_max,
        used_bytes=used,
        capacity_bytes=capacity,
        used_tokens=sample.used_tokens,
        capacity_tokens=sample.capacity_tokens,
        page_bytes=geometry.largest_page_bytes if geometry else None,
        block_size=sample.block_size,
        estimated=estimated,
    )


def _capacity_bytes(sample: EngineSample, geometry: Geometry) -> tuple[float | None, bool]:
    """Bytes of all pools, and whether they are an estimate."""
    block_bytes = geometry.pod_bytes_per_block
    if sample.num_blocks and block_bytes and sample.block_size == geometry.block_size:
        return float(sample.num_blocks * block_bytes), False
    if sample.capacity_tokens is not None:
        return sample.capacity_tokens * geometry.pod_bytes_per_token_growing, True
    return None, False
