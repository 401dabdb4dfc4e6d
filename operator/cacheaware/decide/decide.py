"""The decision, step by step."""

from cacheaware.decide.decision import Decision
from cacheaware.decide.fleet import FleetView
from cacheaware.decide.memory import Memory
from cacheaware.decide.policy import Policy
from cacheaware.names import Reasons


def decide(fleet: FleetView, policy: Policy, memory: Memory, now: float) -> tuple[Decision, Memory]:
    """Decide how many replicas the target should have, why, and which pods to give up."""
    del policy, now
    current = fleet.spec_replicas
    return Decision(desired=current, current=current, reason=Reasons.STEADY, message=""), memory
