"""FleetView x Policy x Memory x now -> Decision: pure, deterministic, never raises for odd data."""

from cacheaware.decide.decide import decide
from cacheaware.decide.memory import Memory

__all__ = ["Memory", "decide"]
