"""What bears on a scaler's replicas besides its pods, gathered for each round and remembered."""

from dataclasses import dataclass, field

from cacheaware.controller.registry import Scaler
from cacheaware.decide.circumstances import Circumstances, Reading, Wake
from cacheaware.decide.cold_start import Starts
from cacheaware.decide.contest import Contest
from cacheaware.decide.fleet import FleetView
from cacheaware.decide.room import NODE_SECONDS, Room, roomed
from cacheaware.decide.zero import Quiet, quieted
from cacheaware.observe.schedules import floor_of
from cacheaware.observe.target import Target


@dataclass(slots=True)
class Surroundings:
    """What is remembered from round to round; a restart begins anew, which only makes it slower."""

    reading: Reading | None = None
    """This round's activation signal; None where the scaler has none."""
    quiet: Quiet = field(default_factory=Quiet)
    contest: Contest = field(default_factory=Contest)
    room: Room | None = None

    def look(
        self,
        scaler: Scaler,
        target: Target,
        fleet: FleetView,
        now: float,
        node_s: float = NODE_SECONDS,
    ) -> None:
        """Take in a round's look; a node autoscaler has `node_s` seconds to bring a node."""
        self.contest = self.contest.seen(target.spec_replicas, target.replicas_by, now)
        self.room = roomed(self.room, fleet, now, node_s)
        rule = scaler.policy.activation
        if rule is None or self.reading is None:
            self.quiet = Quiet()
        else:
            self.quiet = quieted(self.quiet, self.reading, rule.threshold, fleet.pods, now)

    def around(
        self,
        scaler: Scaler,
        target: Target,
        starts: Starts,
        *,
        asleep: bool,
        now: float,
        wall: float,
    ) -> Circumstances:
        """The circumstances of a round.

        Args:
            scaler: whose wishes count.
            target: what it scales.
            starts: what its pods' starts have taught.
            asleep: whether its replicas are 0 by our own doing.
            now: monotonic seconds.
            wall: seconds since the epoch.
        """
        reading = self.reading
        sleeps = reading is not None or asleep
        return Circumstances(
            scheduled=floor_of(scaler.policy.schedules, starts, wall),
            gpus_per_replica=target.gpus,
            fit=self.room.fit(now) if self.room else None,
            contested=self.contest.told(now),
            wake=Wake(reading or Reading(), self.quiet.lasted(now), asleep) if sleeps else None,
        )
