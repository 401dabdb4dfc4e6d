"""The time to the first token: a target whose size of shortage is not known without a model.

So it asks for one replica at a time, and for the next only when the last has shown its effect.
"""

from msgspec import Struct

from cacheaware.decide.decision import Term
from cacheaware.decide.policy import Policy
from cacheaware.decide.supply import Supply

EFFECT_SECONDS = 60.0
"""Pods tell their latencies over about this time, so a new pod shows its effect after it."""


class FirstToken(Struct, frozen=True, kw_only=True):
    """Seconds to the first token, the 90th percentile, against the target."""

    typical: float
    """Half of the pods that tell are above this or equal: one sick pod is no shortage."""
    slowest: float
    target: float
    settled: bool
    """No ordered pod is still to serve, and none has just begun to or come back."""

    @property
    def short(self) -> bool:
        """Whether the fleet is to grow by one."""
        return self.typical > self.target and self.settled

    @property
    def blocks(self) -> bool:
        """Whether the fleet must not shrink."""
        return self.slowest > self.target

    def replicas(self, current: int) -> int:
        """What the latency asks for; 0 where it is content."""
        if self.short:
            return current + 1
        return current if self.blocks else 0

    def term(self, current: int) -> Term:
        """This signal as a term of the decision."""
        return Term(
            signal="ttft",
            demand=self.typical * 1000,
            per_replica=self.target * 1000,
            unit="ms",
            replicas=self.replicas(current),
            note=f"p90; the slowest pod has {self.slowest * 1000:,.0f} ms; one replica at a time",
        )


def first_token(supply: Supply, policy: Policy, *, grown: bool = False) -> FirstToken | None:
    """The latency of a fleet; None without a target, in decode pods, or without a request.

    `grown` tells that pods were ordered or brought back within `EFFECT_SECONDS`.
    """
    if policy.ttft_p90_ms is None or policy.role == "Decode":
        return None
    loads = (pod.load for pod in supply.serving)
    told = sorted(load.ttft_p90_s for load in loads if load and load.ttft_p90_s is not None)
    if not told:
        return None
    ages = [pod.view.serving_age_s for pod in supply.serving]
    fresh = any(age is not None and age < EFFECT_SECONDS for age in ages)
    return FirstToken(
        typical=told[(len(told) - 1) // 2],
        slowest=told[-1],
        target=policy.ttft_p90_ms / 1000,
        settled=not (supply.on_their_way or fresh or grown),
    )
