"""What a policy is: observations in, orders out; and what most policies need for that."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cacheaware_sim.fleet.scraped import Observation, PodSample


@dataclass(frozen=True, slots=True)
class Orders:
    """What a policy wants done."""

    replicas: int
    victims: tuple[str, ...] = ()
    """By name; empty: Kubernetes' own choice (not ready first, then the youngest)."""
    cordons: tuple[str, ...] = ()
    uncordons: tuple[str, ...] = ()
    reason: str = ""


class Policy(Protocol):
    """An autoscaler: keeps its own history, reads no clock and nothing but what it is shown."""

    name: str
    interval_s: float
    """How often it is asked."""

    def decide(self, seen: Observation) -> Orders:
        """What to do now."""
        ...

    def wrote(self, before: int, after: int, now: float) -> None:
        """The write to /scale went through; not called when it was refused."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """The least and the most replicas.

    Peers' ways from and to zero rest on components outside of the pods (an activator, a queue in
    the gateway), which the simulator has not, so the least is 1.

    Raises:
        ValueError: One line that names the field, its value and what is allowed.
    """

    min_replicas: int
    max_replicas: int

    def __post_init__(self) -> None:
        if self.min_replicas < 1:
            raise ValueError(f"min_replicas {self.min_replicas}: must be at least 1")
        if self.max_replicas < self.min_replicas:
            raise ValueError(
                f"max_replicas {self.max_replicas}: must be at least min_replicas, "
                f"{self.min_replicas}"
            )

    def clamp(self, replicas: int) -> int:
        """The nearest allowed number.

        >>> Limits(2, 10).clamp(1), Limits(2, 10).clamp(7), Limits(2, 10).clamp(11)
        (2, 7, 10)
        """
        return min(max(replicas, self.min_replicas), self.max_replicas)


class Every:
    """Tells when a period is over, for loops that are slower than the policy is asked."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._next: float | None = None

    def due(self, now: float) -> bool:
        """Whether to act now: at first, then once a period."""
        if self._next is not None and now < self._next - 1e-9:
            return False
        self._next = now + self._period_s
        return True


def hold(seen: Observation, reason: str) -> Orders:
    """Change nothing."""
    return Orders(seen.replicas, reason=reason)


def not_terminating(pods: Sequence[PodSample]) -> tuple[PodSample, ...]:
    """The pods that a Deployment counts in `status.replicas`."""
    return tuple(pod for pod in pods if not pod.terminating)


def ready(pods: Sequence[PodSample]) -> tuple[PodSample, ...]:
    """The pods that a Service routes to."""
    return tuple(pod for pod in pods if pod.ready and not pod.terminating)
