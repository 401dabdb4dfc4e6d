"""What an engine leaves for its KV cache on one rank: memory, weights, activations, the rest.

vLLM's rule (`gpu_worker.py`, determine_available_memory): pool = utilization x memory - weights -
peak activations of a profile run - what lies outside of PyTorch - CUDA graphs (from 0.21 on).
The profile run computes `max_num_batched_tokens` tokens and samples for `max_num_seqs` requests;
neither option, nor `max_model_len`, sets pages aside.
"""

from dataclasses import dataclass
from typing import Final

from cacheaware.model.architecture import Architecture
from cacheaware.model.estimates import Estimate, exactly
from cacheaware.model.gpus import Gpu
from cacheaware.model.layers import Attention, Experts, FeedForward, Latent, Layer, StateMixer
from cacheaware.model.modules import Module, Role, Split
from cacheaware.model.precision import HALF_BYTES, Precision
from cacheaware_sidecar.kv import Geometry, Parallel

GIB: Final = 2**30
UTILIZATION: Final = 0.92
"""vLLM's default from 0.21 on; 0.9 before."""
_VISIBLE_GIB: Final = {
    "T4": (14.56, 14.75),
    "A10": (21.99, 22.19),
    "L4": (21.96, 22.17),
    "L40S": (44.3, 44.53),
}
"""Cards whose GDDR6 holds its own error correction: `total_gpu_memory` of engines' logs."""
_VISIBLE_SHARE: Final = Estimate(0.979, 0.988, 0.993)
"""Of all others: 79.1 to 79.3 of 80, 139.8 of 141, 23.5 to 23.7 of 24 GiB in engines' logs."""
_SAMPLER_BYTES: Final = Estimate(2, 6, 26)
"""Per logit of the profile run: 16 bit alone; with its fp32 copy; with all that sorting for
top-p holds (values, int64 indices, probabilities, sums)."""
_OUTSIDE_GIB: Final = Estimate(0.05, 0.12, 0.3)
"""CUDA context's growth and libraries' workspaces, one rank: 0.05 to 0.25 GiB in logs."""
_OUTSIDE_RANKS_GIB: Final = Estimate(0.2, 0.5, 1.0)
"""The same with NCCL's buffers: 0.2 to 0.95 GiB in logs."""
_GRAPHS_GIB: Final = Estimate(0.0, 0.4, 1.0)
"""CUDA graphs: none before 0.21, 0.22 to 0.78 GiB in logs of models up to 30B."""
_GRAPHS_PER_WEIGHT: Final = 0.04
"""Of large models, by weights of a rank: 4.1 GiB beside 107 GiB."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """What the profile run is made with.

    Attributes:
        batched_tokens: `max_num_batched_tokens`.
        sequences: `max_num_seqs`.
    """

    batched_tokens: int
    sequences: int


def default_scheduler(gpu: Gpu) -> Scheduler:
    """The defaults of vLLM's API server (`arg_utils.py`)."""
    if gpu.memory_gib >= 70 and not gpu.name.startswith("A100"):
        return Scheduler(8192, 1024)
    return Scheduler(2048, 256)


@dataclass(frozen=True, slots=True)
class RankMemory:
    """The memory of one rank, in bytes.

    Attributes:
        visible: What the driver shows.
        budget: Utilization x visible.
        weights: Stored weights of the rank.
        activations: The profile run's peak.
        other: Outside of PyTorch, and CUDA graphs.
    """

    visible: Estimate
    budget: Estimate
    weights: int
    activations: Estimate
    other: Estimate

    @property
    def taken(self) -> Estimate:
        """All that is no KV cache."""
        return exactly(self.weights) + self.activations + self.other

    @property
    def pool(self) -> Estimate:
        """What is left for the KV cache; below zero where something is missing."""
        return self.taken.taken_from(self.budget)


def rank_memory(
    model: Architecture, precision: Precision, kept: Geometry, gpu: Gpu, utilization: float
) -> RankMemory:
    """The memory of one rank of the largest stage.

    Args:
        model: The model.
        precision: How its weights are stored.
        kept: Its KV cache on the ranks that are planned.
        gpu: The GPU of each rank.
        utilization: `--gpu-memory-utilization`.
    """
    visible = visible_bytes(gpu)
    weights = rank_weights(model, precision, kept)
    return RankMemory(
        visible=visible,
        budget=visible.scaled(utilization),
        weights=weights,
        activations=activations(model, kept.parallel.tensor, default_scheduler(gpu)),
        other=_other(kept.parallel, weights),
    )


def visible_bytes(gpu: Gpu) -> Estimate:
    """Memory that an engine sees on this GPU."""
    if seen := _VISIBLE_GIB.get(gpu.name):
        low, high = seen
        return Estimate(low, (low + high) / 2, high).scaled(GIB)
    return _VISIBLE_SHARE.scaled(gpu.memory_gib * GIB)


def rank_weights(model: Architecture, precision: Precision, kept: Geometry) -> int:
    """Bytes of weights on one rank; pipeline stages are taken as equal.

    What engines don't split is on every rank, and so are KV heads beyond one per rank.
    """
    tensor = kept.parallel.tensor
    whole = sum(_share(one, tensor) * precision.bytes(one) for one in model.modules())
    extra = sum(
        _replicated(layer, kept, precision, model.hidden) for layer in model.layers if tensor > 1
    )
    return round((whole + extra) / kept.parallel.pipeline)


def _share(module: Module, tensor: int) -> float:
    return module.parameters / (1 if module.split is Split.NONE else tensor)


def _replicated(layer: Layer, kept: Geometry, precision: Precision, hidden: int) -> float:
    """Bytes of K and V weights that a rank holds beyond its share."""
    if not isinstance(layer.mixer, Attention):
        return 0.0
    cached = kept.layer_list[layer.index]
    beyond = cached.kv_heads - cached.total_kv_heads / kept.parallel.tensor
    qkv = next((one for one in layer.modules if one.role is Role.QKV and one.is_linear), None)
    width = layer.mixer.key_size + layer.mixer.value_size
    return hidden * beyond * width * precision.bytes(qkv) if qkv else 0.0


def activations(model: Architecture, tensor: int, scheduler: Scheduler) -> Estimate:
    """The profile run's peak in bytes: a layer's widest moment, then the sampler's logits.

    tokens x 2 B x (2 x hidden + the wider of attention and feed-forward, split over ranks)
    + sequences x vocabulary x 2 to 26 B.
    """
    widest = max((_width(layer, model.hidden, tensor) for layer in model.layers), default=0.0)
    layer = scheduler.batched_tokens * HALF_BYTES * (2 * model.hidden + widest)
    logits = _SAMPLER_BYTES.scaled(scheduler.sequences * model.vocabulary)
    return Estimate(
        max(layer, logits.low), layer + logits.expected, layer + logits.high
    )  # the sampler runs after the layers: at the least their memory is used again


def _width(layer: Layer, hidden: int, tensor: int) -> float:
    """Values per token that a layer holds at once beside its input and the residual."""
    return max(_mixer_width(layer) / tensor, _feed_width(layer, hidden, tensor))


def _mixer_width(layer: Layer) -> float:
    mixer = layer.mixer
    if isinstance(mixer, Attention):
        query, out = mixer.heads * mixer.key_size, mixer.heads * mixer.value_size
        return query + mixer.kv_heads * (mixer.key_size + mixer.value_size) + out
    if isinstance(mixer, Latent):
        return mixer.heads * 2 * (mixer.nope + mixer.rope + mixer.value)
    if isinstance(mixer, StateMixer):
        return 3 * mixer.channels
    return 0


def _feed_width(layer: Layer, hidden: int, tensor: int) -> float:
    """Gate, up and their product; of experts those of all chosen ones, as fused kernels do."""
    feed = layer.feed
    if isinstance(feed, FeedForward):
        return (3 if feed.gated else 2) * feed.size / tensor
    if isinstance(feed, Experts):
        up = (2 if feed.gated else 1) * feed.size / tensor
        routed = feed.top_k * (max(up, hidden) + feed.size / tensor)
        return routed + 3 * feed.shared_size / tensor
    return 0


def _other(parallel: Parallel, weights: int) -> Estimate:
    ranks = parallel.tensor * parallel.pipeline
    outside = _OUTSIDE_GIB if ranks == 1 else _OUTSIDE_RANKS_GIB
    least = _GRAPHS_PER_WEIGHT * weights / GIB
    graphs = Estimate(
        _GRAPHS_GIB.low, max(_GRAPHS_GIB.expected, least / 2), max(_GRAPHS_GIB.high, least)
    )
    return (outside + graphs).scaled(GIB)
