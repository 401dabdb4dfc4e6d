"""Orders that no node has room for are taken back to what fits, and tried again later.

A pod counts once it has been unschedulable until its deadline: what starts have taught, and not
before a node autoscaler has had its time to bring a node (Cluster Autoscaler gives a node 15
minutes, `--max-node-provision-time`; a setting tells of others): to take the pod away earlier would
call that node off. What waits in a queue (SchedulingGated) is not counted: it would lose its place.
Then the ceiling is what has a node, for 5 minutes, and at each further failure twice as long, up to
an hour.
"""

from msgspec import Struct
from msgspec.structs import replace

from cacheaware.decide.circumstances import Fit
from cacheaware.decide.cold_start import Stage, Starts, deadline_s
from cacheaware.decide.fleet import FleetView, PodView
from cacheaware.decide.pauses import doubled

NODE_SECONDS = 900.0
FIRST_SECONDS = 300.0
LONGEST_SECONDS = 3600.0
UNSCHEDULABLE = "Unschedulable"
"""The scheduler's word, as the reason of the pod's condition PodScheduled."""


class Room(Struct, frozen=True):
    """What had a node when an order was taken back."""

    replicas: int
    until: float
    """So long no more are ordered."""
    times: int
    """Orders taken back, one after the other."""

    def fit(self, now: float) -> Fit | None:
        """The ceiling, while it holds."""
        return Fit(self.replicas, self.until - now) if now < self.until else None


def pause_s(times: int) -> float:
    """How long no more is ordered after so many failures.

    >>> [pause_s(times) / 60 for times in (1, 2, 3, 4, 5, 6)]
    [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]
    """
    return doubled(FIRST_SECONDS, times, LONGEST_SECONDS)


def unplaced(pod: PodView, starts: Starts, node_s: float) -> bool:
    """Whether a pod has waited for a node until its deadline."""
    start = pod.starting
    if pod.stuck != UNSCHEDULABLE or start is None or start.stage is not Stage.SCHEDULE:
        return False
    return start.age_s >= max(node_s, deadline_s(starts, start))


def roomed(
    before: Room | None, fleet: FleetView, now: float, node_s: float = NODE_SECONDS
) -> Room | None:
    """What is known of the nodes' room after a round's look.

    Args:
        before: of the round before.
        fleet: what was seen in this one.
        now: its time.
        node_s: seconds that a node autoscaler has to bring a node.
    """
    live = [pod for pod in fleet.pods if not pod.terminating]
    late = sum(unplaced(pod, fleet.learned.starts, node_s) for pod in live)
    fits = len(live) - late
    if late and (before is None or now >= before.until):
        times = 1 if before is None else before.times + 1
        return Room(fits, now + pause_s(times), times)
    if before is None:
        return None
    if now < before.until:
        return replace(before, replicas=min(before.replicas, fits)) if late else before
    waits = sum(pod.starting is not None and pod.starting.stage is Stage.SCHEDULE for pod in live)
    over = fits - waits > before.replicas or now - before.until > LONGEST_SECONDS
    return None if over else before
