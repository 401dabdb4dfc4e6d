"""What goes wrong in a run, and when."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that lasts from `at` for `seconds`; virtual seconds from the start of the trace."""

    at: float
    seconds: float = 0.0

    def holds(self, now: float) -> bool:
        """Whether it lasts now.

        >>> Fault(10.0, 5.0).holds(10.0), Fault(10.0, 5.0).holds(15.0)
        (True, False)
        """
        return self.at <= now < self.at + self.seconds


@dataclass(frozen=True, slots=True)
class PodKilled(Fault):
    """A pod that serves dies at once with all it has; the workload orders another."""


@dataclass(frozen=True, slots=True)
class MetricsStale(Fault):
    """Every scrape fails."""


@dataclass(frozen=True, slots=True)
class SlowNode(Fault):
    """The engine of a pod that serves takes `factor` times as long for each iteration."""

    factor: float = 2.0


@dataclass(frozen=True, slots=True)
class SlowStarts(Fault):
    """Pods that are ordered meanwhile take `factor` times as long to start."""

    factor: float = 3.0


@dataclass(frozen=True, slots=True)
class WritesRefused(Fault):
    """The API server refuses every write of /scale."""


FAULT_SETS: dict[str, tuple[Fault, ...]] = {
    "none": (),
    "pod-killed": (PodKilled(600.0),),
    "metrics-stale": (MetricsStale(900.0, 60.0),),
    "slow-node": (SlowNode(1200.0, 300.0),),
    "slow-starts": (SlowStarts(0.0, 86_400.0),),
    "writes-refused": (WritesRefused(2400.0, 60.0),),
    "all": (
        PodKilled(600.0),
        MetricsStale(900.0, 60.0),
        SlowNode(1200.0, 300.0),
        SlowStarts(1500.0, 600.0),
        WritesRefused(2400.0, 60.0),
    ),
}

F = TypeVar("F", bound=Fault)


def lasting(faults: Iterable[Fault], kind: type[F], now: float) -> list[F]:
    """The faults of a kind that last now."""
    return [fault for fault in faults if isinstance(fault, kind) and fault.holds(now)]
