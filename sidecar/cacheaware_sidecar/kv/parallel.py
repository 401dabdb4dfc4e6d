"""How a model is spread over ranks: tensor, pipeline and decode-context parallelism."""

from dataclasses import dataclass

from cacheaware_sidecar.kv.errors import ConfigError, refusal
from cacheaware_sidecar.kv.fields import whole

MOST_RANKS = 4096


@dataclass(frozen=True, slots=True)
class Parallel:
    """The parallel sizes an engine was started with; decode-context ranks lie inside tensor's.

    Raises:
        ConfigError: A size outside 1..4096, or decode_context does not divide tensor.
    """

    tensor: int = 1
    pipeline: int = 1
    decode_context: int = 1

    def __post_init__(self) -> None:
        whole("tensor parallel", self.tensor, 1, MOST_RANKS)
        whole("pipeline parallel", self.pipeline, 1, MOST_RANKS)
        whole("decode context parallel", self.decode_context, 1, MOST_RANKS)
        if self.tensor % self.decode_context:
            allowed = f"allowed are divisors of tensor parallel {self.tensor}"
            raise refusal("decode context parallel", self.decode_context, allowed)

    def __str__(self) -> str:
        return f"TP {self.tensor}, PP {self.pipeline}, DCP {self.decode_context}"

    def heads(self, field: str, total: int) -> int:
        """KV heads on one rank: total // tensor, at least one (replicated beyond the heads).

        vLLM: `ModelConfig.get_num_kv_heads`; the models assert that one divides the other.
        """
        if max(total, self.tensor) % min(total, self.tensor):
            raise ConfigError(
                f"{field} is {total}: with tensor parallel {self.tensor} one must divide the other"
            )
        return max(1, total // self.tensor)

    def share(self, field: str, total: int) -> int:
        """One rank's part of something that is split and never replicated (state heads)."""
        if total % self.tensor:
            raise ConfigError(
                f"{field} is {total}: allowed are multiples of tensor parallel {self.tensor}"
            )
        return total // self.tensor

    def stages(self, layers: int) -> tuple[range, ...]:
        """Which layers lie on which pipeline stage.

        vLLM's `get_pp_indices`: as many on each, what is left goes one by one to the stages
        before the last, from the back.

        Raises:
            ConfigError: More stages than layers.
        """
        if self.pipeline > layers:
            raise refusal("pipeline parallel", self.pipeline, f"allowed is 1..{layers} (layers)")
        sizes = [layers // self.pipeline] * self.pipeline
        for extra in range(layers % self.pipeline):
            sizes[-2 - extra] += 1
        starts = [sum(sizes[:stage]) for stage in range(self.pipeline)]
        return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))
