"""From an engine's sample to the state of the pod's KV cache: tokens, bytes, pages."""

from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.kv import Geometry
from cacheaware_sidecar.pod_state import KvState


def kv_state(sample: EngineSample, geometry: Geometry | None) -> KvState:
    """The KV cache of a pod.

    Capacity in bytes is, first that is there: what the engine reports; blocks x bytes per block;
    tokens x the bytes that the pool pays for a token, an estimate. Used bytes are the engine's,
    or the same share of the capacity as of the tokens.

    Args:
        sample: What the metrics page said.
        geometry: Of the model at the sample's block size; None where no config is known, and
            then bytes are known only if the engine tells them.
    """
    capacity, estimated = _capacity_bytes(sample, geometry)
    used = sample.used_bytes
    if used is None and capacity is not None and sample.usage is not None:
        used = sample.usage * capacity
    sized = geometry is not None and sample.block_size is not None
    return KvState(
        usage=sample.usage,
        usage_max=sample.usage_max,
        used_bytes=used,
        capacity_bytes=capacity,
        used_tokens=sample.used_tokens,
        capacity_tokens=sample.capacity_tokens,
        page_bytes=geometry.largest_page_bytes if geometry and sized else None,
        block_size=sample.block_size,
        estimated=estimated,
    )


def _capacity_bytes(sample: EngineSample, geometry: Geometry | None) -> tuple[float | None, bool]:
    """Bytes of all pools of the pod, and whether they are an estimate.

    Blocks count only where the geometry's blocks are the engine's: of the same size.
    """
    if sample.capacity_bytes is not None or geometry is None:
        return sample.capacity_bytes, False
    block_bytes = geometry.pod_bytes_per_block
    if sample.num_blocks and block_bytes and sample.block_size == geometry.block_size:
        return float(sample.num_blocks * block_bytes), False
    token_bytes = geometry.pod_bytes_per_token_reserved
    if sample.capacity_tokens is None or not token_bytes:
        return None, False
    return sample.capacity_tokens * token_bytes, True
