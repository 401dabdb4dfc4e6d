"""What became of the requests and what it cost, added up as the run goes: memory stays flat."""

from dataclasses import dataclass, field

from cacheaware_sim.fleet.pod import Stage
from cacheaware_sim.fleet.quantiles import Quantiles
from cacheaware_sim.fleet.sent import Sent
from cacheaware_sim.policies.capacity import LatencyTargets

FLAP_S = 300.0
"""A change that takes back the one before within this time is a flap."""


@dataclass(slots=True)
class Score:
    """Counts of a run."""

    targets: LatencyTargets
    requests: int = 0
    """That the trace sent."""
    good: int = 0
    """Whose TTFT and TPOT were both within the targets."""
    finished: int = 0
    lost: int = 0
    """Cut by a pod that went or died, or refused because no pod can hold them."""
    lost_to_scale_down: int = 0
    """Those of them that a pod cut which the policy gave up."""
    never_fit: int = 0
    """Those of them that are longer than an engine's pool."""
    preemptions: int = 0
    output_tokens: int = 0
    """Of the requests that finished."""
    ttft_s: Quantiles = field(default_factory=Quantiles)
    """Of the requests that finished, from when the client sent them."""
    tpot_s: Quantiles = field(default_factory=Quantiles)
    """Of those of them with two output tokens or more."""
    pod_seconds: dict[Stage, float] = field(
        default_factory=lambda: {stage: 0.0 for stage in Stage if stage is not Stage.GONE}
    )
    """Of all pods, from ordered to gone, until the trace ended."""
    changes: list[tuple[float, int, int]] = field(default_factory=list)
    """(when, replicas before, after)."""

    def ended(self, request: Sent) -> None:
        """Count a request that came to its end."""
        if request.first_token_at is None or request.finished_at is None:
            raise ValueError(f"request {request.id}: must have finished")
        self.finished += 1
        self.output_tokens += request.output_tokens
        ttft_s = request.first_token_at - request.sent_at
        tpot_s = 0.0
        self.ttft_s.add(ttft_s)
        if request.output_tokens > 1:
            decode_s = request.finished_at - request.first_token_at
            tpot_s = decode_s / (request.output_tokens - 1)
            self.tpot_s.add(tpot_s)
        self.good += ttft_s <= self.targets.ttft_s and tpot_s <= self.targets.tpot_s

    @property
    def unfinished(self) -> int:
        """Requests that neither ended nor were lost."""
        return self.requests - self.finished - self.lost

    @property
    def attainment(self) -> float:
        """Share of all requests that were good, 0..1; those that were lost or never ended are not.

        1 of none.
        """
        return self.good / self.requests if self.requests else 1.0

    @property
    def total_pod_seconds(self) -> float:
        """Of all pods, whatever they did."""
        return sum(self.pod_seconds.values())

    @property
    def flaps(self) -> int:
        """Changes against the direction of the one before, soon after it."""
        pairs = zip(self.changes, self.changes[1:], strict=False)
        return sum(
            (after[2] > after[1]) != (before[2] > before[1]) and after[0] - before[0] < FLAP_S
            for before, after in pairs
        )
