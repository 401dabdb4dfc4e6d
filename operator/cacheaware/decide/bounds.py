"""Between how many and how many replicas a target may have now, and which wish says so.

The bounds know no window and no rate. Where two of them cross, a ceiling that the user set
(maxReplicas, maxGpus) is above every floor, and a floor is above what the nodes have room for: a
pod that waits for a node costs nothing.
"""

from msgspec import Struct

from cacheaware.decide.circumstances import Fit, Floor
from cacheaware.decide.fleet import FleetView
from cacheaware.decide.policy import Policy
from cacheaware.decide.zero import awake_because, may_sleep
from cacheaware.names import Reasons


class Bound(Struct, frozen=True):
    """One bound and its name."""

    replicas: int
    name: str
    """As in `limited_by`."""
    told: str
    """In a few words."""


class Bounds(Struct, frozen=True):
    """The floor and the ceiling that hold; the floor is never above the ceiling."""

    floor: Bound
    ceiling: Bound

    def within(self, replicas: int) -> int:
        """The replicas, as far as the bounds allow.

        >>> Bounds(Bound(2, "minReplicas", ""), Bound(5, "maxReplicas", "")).within(9)
        5
        """
        return max(self.floor.replicas, min(self.ceiling.replicas, replicas))


def bounds_of(policy: Policy, fleet: FleetView) -> Bounds:
    """The bounds of this round."""
    around = fleet.around
    cap = lower(most(policy), by_gpus(policy, around.gpus_per_replica))
    floor = higher(least(policy, fleet), by_schedule(around.scheduled))
    if floor.replicas > cap.replicas:
        floor = Bound(cap.replicas, floor.name, f"{floor.told}, but {cap.told}")
    room = by_room(around.fit, floor.replicas)
    return Bounds(floor, lower(cap, room))


def least(policy: Policy, fleet: FleetView) -> Bound:
    """`minReplicas`; where it is 0, one until the target may sleep."""
    if policy.min_replicas > 0 or may_sleep(policy, fleet):
        told = f"minReplicas is {policy.min_replicas:,}"
        return Bound(policy.min_replicas, "minReplicas", told)
    return Bound(1, "activation", awake_because(policy, fleet))


def most(policy: Policy) -> Bound:
    """`maxReplicas`."""
    return Bound(policy.max_replicas, "maxReplicas", f"maxReplicas is {policy.max_replicas:,}")


def by_schedule(scheduled: Floor | None) -> Bound | None:
    """The floor of the schedules that hold."""
    if scheduled is None:
        return None
    soon = f", from in {scheduled.begins_s:,.0f} s on" if scheduled.begins_s > 0 else ""
    told = f"schedule {scheduled.told} wants {scheduled.replicas:,}{soon}"
    return Bound(scheduled.replicas, "schedule", told)


def by_gpus(policy: Policy, each: int | None) -> Bound | None:
    """`maxGpus` in replicas: none where a replica's GPUs are not known.

    A cap below the GPUs of one replica leaves one: it is no way to switch a target off.
    """
    if policy.max_gpus is None or not each:
        return None
    told = f"maxGpus is {policy.max_gpus:,} and a replica takes {each:,}"
    return Bound(max(1, policy.max_gpus // each), "maxGpus", told)


def by_room(fit: Fit | None, floor: int) -> Bound | None:
    """What the nodes have room for, but never less than the floor."""
    if fit is None:
        return None
    told = f"no node has room for more than {fit.replicas:,}; tried again in {fit.again_s:,.0f} s"
    return Bound(max(floor, fit.replicas), Reasons.UNSCHEDULABLE, told)


def lower(one: Bound, other: Bound | None) -> Bound:
    """The lower of two bounds; of equal ones the first."""
    return other if other is not None and other.replicas < one.replicas else one


def higher(one: Bound, other: Bound | None) -> Bound:
    """The higher of two bounds; of equal ones the first."""
    return other if other is not None and other.replicas > one.replicas else one
