"""Models on GPUs: coefficients, KV capacity, scheduler constants, each with its source.

Sources: AIC = least-squares fits of AIConfigurator 0.12.0's silicon tables (vLLM 0.24, bf16); its
figures are sums of kernel times and therefore optimistic, `recommended` raises them. FIT = fitted
to request logs of a real vLLM 0.19 (LLMServingSim's repository), right as they are. SEEN = vLLM
0.32 on two CPU cores with a tiny random model. OURS = made for quick tests.
"""

from dataclasses import dataclass, replace
from typing import Any

from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.iteration import IterationCost

GPU_MEMORY_GIB = {"H100": 80, "H200": 141, "A100": 80, "L40S": 48}
MEMORY_UTILIZATION = 0.9
OVERHEAD_GIB = 5.65
"""Activations 5.5 GiB and others 0.15 GiB per rank, as BLIS (inference-sim) has it."""
COLD_START_S = {"warm-pool": (15.0, 3.0), "cached": (60.0, 10.0), "cold": (240.0, 30.0)}
"""Cold starts as (mean, standard deviation) of a Gaussian; `cached` is the main one (60 to 110)."""


COEFFICIENTS: dict[str, dict[str, float]] = {
    "recommended": {"c0": 1.08, "a1": 1.2},
    "raw": {},
    "slow-prefill": {"c0": 1.08, "a1": 1.5},
    "slow-decode": {"c0": 1.08, "a1": 1.2, "c2": 1.8},
}
"""What kernel sums are multiplied by. The last two are the ends of the band in which a ranking has
to hold: prefill half as dear again as its kernels, and decode contexts as dear as BLIS has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A model on a GPU: what an engine made of it costs and holds."""

    name: str
    source: str
    cost: IterationCost
    num_blocks: int
    block_size: int = 16
    max_model_len: int = 32_768
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    cold_start_s: float = COLD_START_S["cached"][0]

    def recommended(self) -> "Profile":
        """The profile to work with: kernel sums raised by what real runs cost more."""
        return self.at("recommended")

    def at(self, coefficients: str) -> "Profile":
        """The profile at one of `COEFFICIENTS`; fitted ones are right as they are."""
        if self.source != "AIC":
            return self
        return self.with_cost(self.cost.times(**COEFFICIENTS[coefficients]))

    def engine(self, **changes: Any) -> EngineConfig:
        """An engine of this profile that answers at once, with these settings instead of its own.

        Raises:
            ValueError: One line that names the field, its value and what is allowed.
        """
        own = {
            "cost": self.cost,
            "num_blocks": self.num_blocks,
            "block_size": self.block_size,
            "max_model_len": self.max_model_len,
            "max_num_seqs": self.max_num_seqs,
            "max_num_batched_tokens": self.max_num_batched_tokens,
        }
        return EngineConfig(**{**own, **changes})

    def with_cost(self, cost: IterationCost) -> "Profile":
        """The same profile at another speed."""
        return replace(self, cost=cost)


@dataclass(frozen=True, slots=True)
class Weights:
    """What a model needs: weights in GiB (bf16) and KV bytes per token."""

    gib: float
    kv_bytes_per_token: int


WEIGHTS = {
    "llama-3.1-8b": Weights(14.96, 131_072),
    "llama-3.1-70b": Weights(131.4, 327_680),
    "qwen3-32b": Weights(61.02, 262_144),
    "qwen3-8b": Weights(15.26, 147_456),
}


def kv_tokens(model: str, gpu: str, tensor_parallel: int) -> int:
    """Tokens that fit beside the weights: about 420,000 for Llama-3.1-8B on an H100."""
    weights = WEIGHTS[model]
    rank_gib = (
        GPU_MEMORY_GIB[gpu] * MEMORY_UTILIZATION - weights.gib / tensor_parallel - OVERHEAD_GIB
    )
    return int(rank_gib * tensor_parallel * 2**30 / weights.kv_bytes_per_token)


def _cost(c0: float, c1: float, c2: float, a1: float, a2: float) -> IterationCost:
    return IterationCost(
        c0_ms=c0, c1_ms_per_seq=c1, c2_ms_per_ktok=c2, a1_ms_per_ktok=a1, a2_ms_per_mtok2=a2
    )


def _scheduler(gpu: str) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) of vLLM's API server by GPU class (arg_utils)."""
    large = GPU_MEMORY_GIB[gpu] >= 70 and gpu != "A100"
    return (8192, 1024) if large else (2048, 256)


def profile_name(model: str, gpu: str, tensor_parallel: int) -> str:
    """The name of a profile: MODEL-GPU, with -tpN where N is above 1."""
    ranks = f"-tp{tensor_parallel}" if tensor_parallel != 1 else ""
    return f"{model}-{gpu}{ranks}".lower()


def _silicon(model: str, gpu: str, tensor_parallel: int, *cost: float) -> Profile:
    batched_tokens, seqs = _scheduler(gpu)
    return Profile(
        name=profile_name(model, gpu, tensor_parallel),
        source="AIC",
        cost=_cost(*cost),
        num_blocks=kv_tokens(model, gpu, tensor_parallel) // 16,
        max_num_batched_tokens=batched_tokens,
        max_num_seqs=seqs,
    )


_ALL = (
    # model, GPU, tensor parallel, c0, c1 per sequence, c2 per ktok, a1 per ktok, a2 per Mtok^2
    _silicon("llama-3.1-8b", "H100", 1, 6.41, 0.0105, 0.0417, 16.6, 0.69),
    _silicon("llama-3.1-8b", "H200", 1, 4.96, 0.0107, 0.0295, 17.5, 0.65),
    _silicon("llama-3.1-8b", "A100", 1, 11.6, 0.0283, 0.0846, 54.6, 1.53),
    _silicon("llama-3.1-8b", "L40S", 1, 22.3, 0.0352, 0.1895, 51.2, 3.25),
    _silicon("llama-3.1-70b", "H100", 4, 15.2, 0.0323, 0.0265, 55.0, 1.02),
    _silicon("llama-3.1-70b", "H100", 8, 9.97, 0.0237, 0.0134, 37.0, 0.34),
    _silicon("llama-3.1-70b", "A100", 4, 27.6, 0.0975, 0.0584, 157.0, 1.25),
    _silicon("llama-3.1-70b", "A100", 8, 17.3, 0.0682, 0.0270, 106.0, 0.0),
    _silicon("qwen3-32b", "H100", 2, 13.6, 0.0263, 0.0423, 41.9, 1.48),
    _silicon("qwen3-32b", "H100", 4, 8.31, 0.0196, 0.0213, 26.7, 0.60),
    _silicon("qwen3-8b", "H100", 1, 6.60, 0.0112, 0.0470, 16.5, 0.74),
    Profile(
        name="llama-3.1-8b-rtxpro6000",
        source="FIT",
        cost=_cost(11.545, 0.0296, 0.0892, 41.07, 1.481),
        num_blocks=513_000 // 16,  # derived: (96 GB x 0.9 - 16.1 GB - 3 GB) / 131,072 B
        max_num_seqs=128,
    ),
    Profile(
        name="llama-3.1-8b-rtx4090",
        source="FIT",
        cost=_cost(18.0, 0.028, 0.138, 77.9, 3.1),
        num_blocks=2588,
    ),
    Profile(
        name="cpu-tiny",
        source="SEEN",
        cost=_cost(4.0, 0.4, 0.1, 20.0, 1.0),
        num_blocks=64,
        block_size=32,
        max_model_len=1024,
        max_num_seqs=8,
        max_num_batched_tokens=2048,
        cold_start_s=30.0,
    ),
    Profile(
        name="tiny",
        source="OURS",
        cost=_cost(4.0, 0.05, 0.5, 20.0, 1.0),
        num_blocks=512,
        max_model_len=4096,
        max_num_seqs=32,
        cold_start_s=2.0,
    ),
)

PROFILES = {profile.name: profile for profile in _ALL}


def profile_of(model: str, gpu: str, tensor_parallel: int = 1) -> Profile:
    """The profile of a model on GPUs of a kind.

    >>> profile_of("llama-3.1-70b", "H100", 4).name
    'llama-3.1-70b-h100-tp4'

    Raises:
        ValueError: One line that lists what there is.
    """
    name = profile_name(model, gpu, tensor_parallel)
    profile = PROFILES.get(name)
    if profile is None or profile.source not in {"AIC", "FIT"}:
        there = (one.name for one in _ALL if one.source in {"AIC", "FIT"})
        raise ValueError(
            f"model {model} on gpu {gpu} with tp {tensor_parallel}: must be one of "
            f"{', '.join(there)} (MODEL-GPU, -tpN where N is above 1)"
        )
    return profile
