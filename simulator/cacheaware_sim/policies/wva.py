"""What both analyzers of llm-d's workload-variant-autoscaler share: a loop, and the HPA behind it.

The loop writes wva_desired_replicas; an HPA reads it as an External metric (AverageValue 1) and
writes the replicas. Sources: those of `wva_v1` and `wva_v2`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies.hpa import SYNC_S, Hpa
from cacheaware_sim.policies.hpa_behavior import Behavior, Rate, Rules
from cacheaware_sim.policies.hpa_metrics import TEN_PERCENT, Tolerance, average_value_replicas
from cacheaware_sim.policies.policy import Every, Limits, Orders, hold, not_terminating
from cacheaware_sim.policies.scrapes import Scrapes

SCRAPE_S = 5.0
PEAK_S = 60.0
"""A pod's use and queue are the highest of so long."""
_AT_ONCE = Rules(0, (Rate("Pods", 10, 15),))


@dataclass(frozen=True, slots=True)
class Through:
    """The HPA that carries wva_desired_replicas out."""

    behavior: Behavior
    tolerance: Tolerance = TEN_PERCENT


AT_ONCE = Through(Behavior(up=_AT_ONCE, down=_AT_ONCE), Tolerance(0, 0))


class WvaPolicy(ABC):
    """An analyzer's loop and its HPA.

    Args:
        loop_s: How often it analyzes.
        through: The HPA.
        range_s: Scrapes of so long are kept.
        limits: Of replicas.
    """

    name: str
    interval_s = SCRAPE_S

    def __init__(self, loop_s: float, through: Through, range_s: float, limits: Limits) -> None:
        self._through = through
        self._limits = limits
        self._scrapes = Scrapes(range_s)
        self._loop = Every(loop_s)
        self._sync = Every(SYNC_S)
        self._hpa = Hpa(through.behavior, limits)
        self._desired: int | None = None

    def decide(self, seen: Observation) -> Orders:
        """What the HPA writes now."""
        self._scrapes.see(seen)
        if self._loop.due(seen.now):
            self._desired = self._analyze(seen)
        if not self._sync.due(seen.now):
            return hold(seen, "between two syncs of the HPA")
        if self._desired is None:
            return self._hpa.follow(seen, None, "wva")
        pods = len(not_terminating(seen.pods))
        proposal = average_value_replicas(self._desired, 1, pods, self._through.tolerance)
        return self._hpa.follow(seen, proposal, f"wva wants {self._desired}")

    def wrote(self, before: int, after: int, now: float) -> None:
        """Count a change against the rates."""
        self._hpa.wrote(before, after, now)

    @abstractmethod
    def _analyze(self, seen: Observation) -> int | None:
        """wva_desired_replicas; None while it was never written."""
