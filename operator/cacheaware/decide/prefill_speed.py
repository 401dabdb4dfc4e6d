"""How fast a pod in service prefills: from the requests that ended, before that from its warm-up.

An engine tells of each request that ended how long its prefill took and how many tokens it had to
compute. Their quotient holds for the workload as it is: for long prompts, whose attention grows
with the square, and with decoding going on beside them. A warm-up knows neither.
"""

from msgspec import Struct

ENOUGH_S = 60.0
"""So many seconds of prefill tell the speed."""
MEMORY_S = 1200.0
"""What is older than so many seconds of prefill fades: 20 minutes of a pod that does nothing else.
"""
LONG = 512
"""Tokens that a request computes, from which on its prefill is its own: prompts that are shorter
share an iteration, and each would count the time of all of them.
"""
IN_SERVICE = 0.75
"""Of the speed of an idle engine: what engines in service reached with prompts of 1,000 to 4,000
tokens in the simulator (0.57 to 0.82 on four traces).
"""


class Prefilled(Struct, frozen=True, kw_only=True):
    """Requests that ended."""

    seconds: float = 0.0
    """From scheduled to first token, summed over them."""
    tokens: float = 0.0
    """That were computed: without those found in the prefix cache."""
    requests: float = 0.0

    @property
    def known(self) -> bool:
        """Whether they are enough, and long enough, to tell a speed, one of a token/s at least."""
        return self.seconds >= ENOUGH_S and self.tokens >= max(LONG * self.requests, self.seconds)

    def with_more(self, new: "Prefilled") -> "Prefilled":
        """With those that have ended since; the older ones fade as more come.

        >>> Prefilled(seconds=600, tokens=600).with_more(Prefilled(seconds=600, tokens=1200))
        Prefilled(seconds=900.0, tokens=1500.0, requests=0.0)
        """
        kept = max(0.0, 1.0 - new.seconds / MEMORY_S)
        return Prefilled(
            seconds=self.seconds * kept + new.seconds,
            tokens=self.tokens * kept + new.tokens,
            requests=self.requests * kept + new.requests,
        )


def in_service(prefilled: Prefilled, idle: float | None) -> float | None:
    """Prompt tokens per second of a pod in service; None where nothing tells.

    Args:
        prefilled: By requests that ended lately.
        idle: What an idle engine did in its warm-up.

    >>> in_service(Prefilled(seconds=100, tokens=500_000, requests=50), idle=12_000)
    5000.0
    >>> in_service(Prefilled(), idle=12_000)
    9000.0
    """
    if prefilled.known:
        return prefilled.tokens / prefilled.seconds
    return None if idle is None else idle * IN_SERVICE


def remembered(tokens_per_s: float, seconds: float) -> Prefilled:
    """A speed that so many seconds of prefill had told before this operator began.

    How long those prompts were is not known: they count as no longer than needed.
    """
    tokens = tokens_per_s * seconds
    return Prefilled(seconds=seconds, tokens=tokens, requests=tokens / LONG)
