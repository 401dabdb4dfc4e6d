"""The settings of one engine, checked when they are made."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cacheaware_sim.first_shapes import Shape
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.termination import Termination


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """One engine: its speed, its KV pool, its scheduler. Words are vLLM's.

    Raises:
        ValueError: One line that names the field, its value and what is allowed.
    """

    cost: IterationCost
    num_blocks: int
    """Blocks in the KV pool, vLLM's null block included."""
    block_size: int = 16
    """Tokens per block."""
    max_model_len: int = 4096
    """Prompt and output of one request; has to fit into the pool."""
    max_num_seqs: int = 256
    """Requests in one iteration."""
    max_num_batched_tokens: int = 2048
    """Tokens in one iteration: one for each decode, the rest for prefill chunks."""
    prefix_caching: bool = True
    reserve_full_prompt: bool = True
    """Admit a request only if its whole prompt fits (vLLM's scheduler_reserve_full_isl)."""
    cold_start_s: float = 0.0
    """From its start until it answers."""
    stalls_s: Mapping[Shape, float] = field(default_factory=dict)
    """Extra seconds for the first iteration of a shape."""
    termination: Termination = field(default_factory=Termination)

    def __post_init__(self) -> None:
        _at_least("num_blocks", self.num_blocks, 2)
        for name in ("block_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens"):
            _at_least(name, getattr(self, name), 1)
        _at_least("cold_start_s", self.cold_start_s, 0)
        _at_least("shutdown_timeout_s", self.termination.timeout_s, 0)
        _at_least("first_shape_stall_s", min(self.stalls_s.values(), default=0), 0)
        self._check_sizes()

    def _check_sizes(self) -> None:
        if self.max_model_len > self.kv_tokens:
            raise ValueError(
                f"max_model_len {self.max_model_len}: the KV pool holds {self.kv_tokens} tokens "
                f"(({self.num_blocks} - 1) blocks of {self.block_size})"
            )
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens {self.max_num_batched_tokens}: "
                f"must be at least max_num_seqs, {self.max_num_seqs}"
            )

    @property
    def kv_tokens(self) -> int:
        """Tokens that the usable blocks hold."""
        return (self.num_blocks - 1) * self.block_size


def _at_least(name: str, value: float, least: int) -> None:
    if not value >= least:
        raise ValueError(f"{name} {value}: must be at least {least}")
