"""The outcome of a round: one object that feeds status, events, explain, metrics and simulator."""

from msgspec import Struct, field


class Term(Struct, frozen=True, kw_only=True):
    """One signal's part in the decision: `replicas = ceil(demand / (target x supply of a pod))`."""

    signal: str
    """kv-tokens, kv-usage, pending, prefill, ttft."""
    demand: float
    per_replica: float
    """What one replica may carry at target."""
    unit: str
    """tokens, pods, requests, tokens/s, ms."""
    replicas: int
    """What this signal alone asks for, before bounds."""
    note: str = ""


class Victim(Struct, frozen=True, kw_only=True):
    """A pod to give up, with the reason for choosing it."""

    pod: str
    uid: str
    reason: str
    cordoned: bool = False
    """It goes because it is cordoned and empty."""


class Decision(Struct, frozen=True, kw_only=True):
    """What to do, why, on which numbers, and what limited it."""

    desired: int
    current: int
    reason: str
    """One CamelCase word: the reason of events and conditions."""
    message: str
    """One plain sentence with the numbers in it."""
    terms: tuple[Term, ...] = ()
    raw: int | None = None
    """The recommendation before windows, tolerance, rates and bounds; None when unknown."""
    limited_by: tuple[str, ...] = ()
    """minReplicas, maxReplicas, schedule, maxGpus, warmPool, activation, stabilization, rate,
    tolerance, starting, unknown, drain, ...
    """
    victims: tuple[Victim, ...] = ()
    """As many as replicas are lowered by, worth least first."""
    cordons: tuple[Victim, ...] = ()
    """Pods to be out of the endpoints until they are empty: cordoned now or kept cordoned."""
    uncordons: tuple[Victim, ...] = ()
    """Pods that come back: their load has returned, or they won't be empty in time."""
    serving: int = 0
    starting: int = 0
    overdue: int = 0
    unknown: int = 0
    inputs: dict[str, float | int | str | None] = field(default_factory=dict)
    """The fleet's sums that the terms were made of, by name."""

    @property
    def changes(self) -> bool:
        """Whether replicas are to be written."""
        return self.desired != self.current
