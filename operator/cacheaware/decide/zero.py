"""No replicas at all, and back: off unless the user names a signal that wakes the target.

At 0 replicas there is no engine to ask, so the signal comes from outside. To go to 0, the signal
and every pod must be known to be quiet for `idle_seconds`; what is not known is not quiet. At 0 a
signal that can't be read changes nothing. Above its threshold it brings the first replica at once,
whatever the windows and rates. Replicas that somebody else set to 0 mean paused, and no signal
raises them.
"""

from collections.abc import Iterable

from msgspec import Struct

from cacheaware.decide.circumstances import Reading
from cacheaware.decide.decision import Decision
from cacheaware.decide.fleet import FleetView, PodView
from cacheaware.decide.policy import Policy
from cacheaware.decide.supply import STARTING
from cacheaware.names import Reasons

GAP_SECONDS = 60.0
"""A gap in what is known that is no longer than this does not begin the wait anew."""


class Quiet(Struct, frozen=True):
    """Since when signal and pods have been quiet."""

    since: float | None = None
    seen: float = 0.0
    """When they were last known to be."""

    def lasted(self, now: float) -> float | None:
        """Seconds of quiet; None unless it was known in this round."""
        return now - self.since if self.since is not None and self.seen == now else None


def quieted(
    before: Quiet, reading: Reading, threshold: float, pods: Iterable[PodView], now: float
) -> Quiet:
    """The quiet after a round's look.

    >>> quieted(Quiet(100.0, 160.0), Reading(0.0), 0.0, (), 165.0)
    Quiet(since=100.0, seen=165.0)
    """
    served = [pod for pod in pods if not pod.terminating and (pod.ready or not starts(pod))]
    value = reading.value
    if (value is not None and value > threshold) or any(busy(pod) for pod in served):
        return Quiet()
    went_on = before if now - before.seen <= GAP_SECONDS else Quiet()
    if value is not None and all(empty(pod) for pod in served):
        return Quiet(now if went_on.since is None else went_on.since, now)
    return went_on


def starts(pod: PodView) -> bool:
    """Whether a pod has not served yet: what runs on it is its warm-up."""
    return pod.phase in STARTING


def busy(pod: PodView) -> bool:
    """Whether a pod is known to hold a request."""
    load = pod.load
    return load is not None and ((load.running or 0.0) > 0 or (load.waiting or 0.0) > 0)


def empty(pod: PodView) -> bool:
    """Whether a pod is known to hold none."""
    return pod.load is not None and pod.load.running == 0 and pod.load.waiting == 0


def may_sleep(policy: Policy, fleet: FleetView) -> bool:
    """Whether the last replica may go."""
    wake, rule = fleet.around.wake, policy.activation
    if policy.min_replicas > 0 or rule is None or wake is None or wake.quiet_s is None:
        return False
    return wake.quiet_s >= rule.idle_seconds


def awake_because(policy: Policy, fleet: FleetView) -> str:
    """Why the last replica stays."""
    wake, rule = fleet.around.wake, policy.activation
    if rule is None or wake is None:
        return "without an activation signal one replica stays"
    if wake.reading.value is None:
        return f"one replica stays: the activation signal is not known ({wake.reading.detail})"
    if wake.quiet_s is None:
        return "one replica stays: there are requests, or it is not known that there are none"
    return f"one replica stays until all has been quiet for {rule.idle_seconds:,} s"


def at_zero(fleet: FleetView, policy: Policy, most: int) -> Decision:
    """What to do with a target that sleeps.

    Args:
        fleet: a target with 0 replicas, of which we took the last.
        policy: what the user asked for.
        most: replicas that it may have.
    """
    wake, rule, scheduled = fleet.around.wake, policy.activation, fleet.around.scheduled
    least = max(policy.min_replicas, policy.warm_pool, scheduled.replicas if scheduled else 0)
    reading = Reading() if wake is None else wake.reading
    called = rule is not None and reading.value is not None and reading.value > rule.threshold
    desired = min(most, max(least, int(called)))
    if called:
        why = f"the activation signal is {reading.value:,.6g}: {desired:,} at once"
        return told(desired, raised(policy), why)
    if desired:
        return told(desired, raised(policy), f"{desired:,} are wanted whatever the signal says")
    if reading.value is None:
        why = f"whether it is wanted is not known ({reading.detail}): stays at 0"
        return told(0, Reasons.ACTIVATION_UNKNOWN, why, "activation")
    return told(0, Reasons.AT_ZERO, f"the activation signal is {reading.value:,.6g}: stays at 0")


def raised(policy: Policy) -> str:
    """The reason of a first replica."""
    return Reasons.ACTIVATED if policy.mode == "Scale" else Reasons.ADVISED


def told(desired: int, reason: str, message: str, *limits: str) -> Decision:
    """A decision of a target without replicas."""
    return Decision(
        desired=desired,
        current=0,
        reason=reason,
        message=message,
        limited_by=limits,
    )
