"""How much one pod does, from the offline profile of its model: what some peers are given.

The form and its coefficients are those of `IterationCost`; docstrings write c0, c1, c2, a1, a2.
"""

from dataclasses import dataclass

from cacheaware_sim.profiles import Profile


@dataclass(frozen=True, slots=True)
class LatencyTargets:
    """What requests are promised, in seconds."""

    ttft_s: float = 1.0
    tpot_s: float = 0.1


@dataclass(frozen=True, slots=True)
class Lengths:
    """Mean tokens of a request."""

    prompt: float
    output: float

    @property
    def context(self) -> float:
        """Mean tokens in the cache while it decodes."""
        return self.prompt + self.output / 2


def kv_tokens(profile: Profile) -> int:
    """Tokens that the KV pool holds."""
    return profile.num_blocks * profile.block_size


def decode_ms(profile: Profile, batch: float, context: float) -> float:
    """One iteration that only decodes: c0 + c1 B + c2 B context/1000."""
    cost = profile.cost
    return cost.c0_ms + batch * (cost.c1_ms_per_seq + cost.c2_ms_per_ktok * context / 1e3)


def largest_batch(profile: Profile, context: float, tpot_s: float) -> float:
    """Decoding requests that the cache, the scheduler and the latency target allow; at least 1."""
    cost = profile.cost
    per_request_ms = cost.c1_ms_per_seq + cost.c2_ms_per_ktok * context / 1e3
    by_memory = kv_tokens(profile) / max(context, 1.0)
    by_latency = (tpot_s * 1e3 - cost.c0_ms) / per_request_ms if per_request_ms > 0 else by_memory
    return max(1.0, min(by_memory, by_latency, profile.max_num_seqs))
