"""One scaler's round: read the target, look at its pods, decide, act, report."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from cacheaware.act.conditions import Fault, Situation
from cacheaware.act.cordons import CordonMemory, Cordons
from cacheaware.act.deletion_cost import mark_victims, marked_by, sweep
from cacheaware.act.events import Subject, timestamp
from cacheaware.act.lease import Lease
from cacheaware.act.scale import write_replicas
from cacheaware.act.status import StatusMemory
from cacheaware.act.verify import WrittenShrink, shrink_of
from cacheaware.controller.circumstances import Surroundings
from cacheaware.controller.claims import Claims, Standing
from cacheaware.controller.conflicts import conflict
from cacheaware.controller.kept_target import Kept, acts
from cacheaware.controller.registry import Registry, Scaler
from cacheaware.controller.report import Reporter, ReportMemory
from cacheaware.decide import Memory, decide
from cacheaware.decide.decision import Decision
from cacheaware.decide.fleet import FleetView
from cacheaware.decide.learned import Learned
from cacheaware.decide.room import NODE_SECONDS
from cacheaware.decide.victims import BY_COST
from cacheaware.kube import BACKING_OFF, Kube, KubeError
from cacheaware.names import Reasons
from cacheaware.observe.activation import Activations
from cacheaware.observe.budgets import Budgets
from cacheaware.observe.cold_starts import starting_of
from cacheaware.observe.learning import taught
from cacheaware.observe.memory import PodMemory
from cacheaware.observe.observer import Observer, Seen, fleet_view
from cacheaware.observe.podcache import PodCache
from cacheaware.observe.target import Target, TargetError, TargetRef, Targets, leaders
from cacheaware.pods import PodRecord
from cacheaware.telemetry import Metrics

log = logging.getLogger(__name__)

OVERTAKEN = frozenset({404, 409})
"""What was read is no longer so: the target changed, or a victim has gone by itself."""


@dataclass(slots=True)
class ScalerState:
    """What is kept of a scaler from round to round; dropped with it."""

    standing: Standing = field(default_factory=Standing)
    ref: TargetRef | None = None
    kept: Kept | None = None
    """The target as it was last read; None where it is to be read in the next round."""
    memory: Memory | None = None
    pods: dict[str, PodMemory] = field(default_factory=dict)
    shrink: WrittenShrink | None = None
    cordons: CordonMemory = field(default_factory=CordonMemory)
    around: Surroundings = field(default_factory=Surroundings)
    learned: Learned | None = None
    write_fault: Fault | None = None
    again: bool = False
    """Something came between: the round is to be done anew at once."""
    status: StatusMemory = field(default_factory=StatusMemory)
    report: ReportMemory = field(default_factory=ReportMemory)

    def stand(self, found: Standing) -> None:
        """Learn whose the scaler is; once it was another's, what we knew of it counts no more."""
        before, self.standing = self.standing, found
        lapsed = before.tenure is not None and before.tenure != found.tenure
        if found.tenure is not None and (before.elsewhere or lapsed):
            self.memory, self.shrink, self.learned, self.kept = None, None, None, None
            self.cordons, self.status = CordonMemory(), StatusMemory()
            self.around = Surroundings()


class Sight(Struct, frozen=True):
    """What a round saw."""

    target: Target
    records: Sequence[PodRecord]
    seen: Seen
    learned: Learned
    """Up to now, this look included."""
    fresh: bool
    """The target was read in this round."""


@dataclass(slots=True, kw_only=True)
class Round:
    """Does rounds, with everything they need."""

    kube: Kube
    registry: Registry
    targets: Targets
    pods: PodCache
    observer: Observer
    activations: Activations
    budgets: Budgets
    cordons: Cordons
    lease: Lease
    reporter: Reporter
    metrics: Metrics
    claims: Claims
    round_seconds: float
    node_seconds: float = NODE_SECONDS
    missing_fields: tuple[str, ...] = ()
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time

    async def do(self, scaler: Scaler, state: ScalerState) -> None:
        """One round of one scaler; what goes wrong is reported, not raised.

        Raises:
            KubeError: the API failed; the round is done anew next time, with fresh input.
        """
        if state.again:
            state.again, state.kept = False, None
        if not self.lease.held():
            return
        told = state.standing.elsewhere is not None and state.status.written_at is not None
        state.stand(await self.claims.standing(scaler, state.standing.tenure))
        if told and state.standing.elsewhere is not None:
            self.metrics.undecided(scaler.namespace, scaler.name)
            return  # its owner tells what there is to tell
        found = await self._found(scaler, state)
        if found is None:
            return
        if found.decision is None:
            self.metrics.undecided(scaler.namespace, scaler.name)
        found = replace(found, missing_fields=self.missing_fields)
        subject = subject_of(scaler)
        await self.reporter.report(subject, scaler.generation, found, state.status, state.report)

    async def _found(self, scaler: Scaler, state: ScalerState) -> Situation | None:
        mode = scaler.policy.mode
        other = state.standing.elsewhere or conflict(scaler, self.registry)
        if scaler.ref is None:
            fault = Fault(Reasons.INVALID_SPEC, scaler.invalid or "the spec can't be read")
            return Situation(mode=mode, target_fault=fault)
        if state.ref != scaler.ref:
            state.ref, state.memory, state.shrink, state.kept = scaler.ref, None, None, None
            state.around = Surroundings()
        try:
            return await self._looked(scaler, scaler.ref, state, other)
        except TargetError as error:
            state.memory = state.kept = None
            return Situation(
                mode=mode, target_fault=Fault(error.reason, str(error)), conflict=other
            )

    async def _looked(
        self, scaler: Scaler, ref: TargetRef, state: ScalerState, other: str | None
    ) -> Situation | None:
        """Look at the target and its pods, and decide.

        Raises:
            TargetError: there is none, or it can't be read.
        """
        kept = state.kept
        records = self._pods_of(scaler, kept.target) if kept is not None else []
        fresh = kept is None or not kept.holds(records, self.clock(), self.round_seconds)
        target = await self._read(scaler, ref, state) if fresh or kept is None else kept.target
        if not self.pods.listed(scaler.namespace):
            return self._without_pods(scaler, other)
        records = self._pods_of(scaler, target) if fresh else records
        looking = self.observer.see(records, scaler.access, state.pods)
        if scaler.activation is None or scaler.policy.min_replicas > 0:
            seen, state.around.reading = await looking, None
        else:
            reading = self.activations.read(scaler.activation)
            seen, state.around.reading = await asyncio.gather(looking, reading)
        state.pods = seen.memories
        learned = await self._learned(scaler, state, records)
        sight = Sight(target, records, seen, learned, fresh)
        return await self._decide(scaler, state, sight, other)

    async def _read(self, scaler: Scaler, ref: TargetRef, state: ScalerState) -> Target:
        """Read the target, and keep it for the next rounds.

        Raises:
            TargetError: there is none, or it can't be read.
        """
        target = await self.targets.read(ref)
        state.kept = Kept(target, self.clock(), self._pods_of(scaler, target))
        return target

    def _pods_of(self, scaler: Scaler, target: Target) -> list[PodRecord]:
        return leaders(target.ref, self.pods.select(scaler.namespace, target.selector))

    def _without_pods(self, scaler: Scaler, other: str | None) -> Situation | None:
        """What to tell where pods are refused; None where the first list is only under way."""
        if (told := self.pods.fault(scaler.namespace)) is None:
            return None
        fault = Fault(Reasons.PODS_NOT_LISTED, f"the pods can't be listed: {told}")
        return Situation(mode=scaler.policy.mode, pods_fault=fault, conflict=other)

    async def _decide(
        self, scaler: Scaler, state: ScalerState, sight: Sight, other: str | None
    ) -> Situation:
        """Decide and act; what is done in here may be done twice, so nothing is learned in it."""
        target, records, seen, learned = sight.target, sight.records, sight.seen, sight.learned
        scales = scaler.policy.mode == "Scale"
        fleet = fleet_view(
            namespace=scaler.namespace,
            name=scaler.name,
            uid=scaler.uid,
            target=target,
            seen=seen,
            conflict=other if scales else None,
        )
        now, wall = self.clock(), self.wall()
        fleet = with_starts(fleet, records, seen.memories, learned, now=now, wall=wall)
        state.around.look(scaler, target, fleet, now, self.node_seconds)
        if target.spec_replicas > 0:
            state.status.awake()
        asleep = state.status.scaled_to_zero_at is not None
        around = state.around.around(
            scaler, target, learned.starts, asleep=asleep, now=now, wall=wall
        )
        fleet = replace(fleet, around=around)
        before = state.memory
        fleet, decision = await self._decided(scaler, state, fleet, records)
        if scales and not sight.fresh and acts(decision):
            target = await self._read(scaler, target.ref, state)
            state.memory = before
            return await self._decide(
                scaler, state, replace(sight, target=target, fresh=True), other
            )
        self._measure(fleet, decision, seen)
        if scales and state.standing.tenure is None:
            state.write_fault = unclaimed(state.standing)
        elif state.standing.elsewhere is None:
            await self._tidy(scaler, state, records, decision, other)
            await self._act(scaler, state, sight, decision)
        return Situation(
            mode=scaler.policy.mode,
            fleet=fleet,
            decision=decision,
            conflict=other,
            write_fault=state.write_fault,
        )

    async def _learned(
        self, scaler: Scaler, state: ScalerState, records: Sequence[PodRecord]
    ) -> Learned:
        """What starts have taught, this round's included."""
        subject = subject_of(scaler)
        if state.learned is None:
            await self.reporter.recall(subject, state.status)
            there = frozenset(record.uid for record in records if record.ready)
            state.learned = replace(state.status.learned, counted=there)
        state.learned, fresh = taught(state.learned, records, state.pods, self.clock())
        for start in fresh:
            self.metrics.started(scaler.namespace, scaler.name, start)
        return state.learned

    async def _decided(
        self,
        scaler: Scaler,
        state: ScalerState,
        fleet: FleetView,
        records: Sequence[PodRecord],
    ) -> tuple[FleetView, Decision]:
        """Decide; where that would cordon a pod, once more with the disruption budgets known."""
        policy, now = scaler.policy, self.clock()
        if policy.round_seconds != self.round_seconds:
            policy = replace(policy, round_seconds=self.round_seconds)
        state.cordons.keep({record.uid for record in records})
        fleet = with_obstacles(fleet, state.cordons.obstacles(now))
        memory = state.memory or Memory.start(fleet.spec_replicas, now)
        decision, state.memory = decide(fleet, policy, memory, now)
        if chosen := [one.uid for one in decision.cordons if one.uid not in memory.cordons]:
            guards = await self.budgets.guards(scaler.namespace, chosen, records)
            if guards:
                fleet = with_guards(fleet, guards)
                decision, state.memory = decide(fleet, policy, memory, now)
        return fleet, decision

    async def _act(
        self, scaler: Scaler, state: ScalerState, sight: Sight, decision: Decision
    ) -> None:
        """Cordons first, then the replicas."""
        await self._move(scaler, state, sight.records, decision)
        out = [one.uid for one in decision.victims if one.cordoned]
        lasts = state.cordons.surely_last(out, self.clock())
        if scaler.policy.mode == "Scale" and decision.changes and lasts:
            await self._scale(scaler, state, sight, decision)
        else:
            state.write_fault = None

    async def _move(
        self,
        scaler: Scaler,
        state: ScalerState,
        records: Sequence[PodRecord],
        decision: Decision,
    ) -> None:
        """Pods out of the endpoints and back into them, and what pods that go must know."""
        acts = scaler.policy.mode == "Scale" and self._still_wanted(scaler)
        wanted = decision if acts else replace(decision, cordons=(), victims=())
        state.cordons.going.see(records, self.clock())
        moves = wanted.cordons or wanted.uncordons or wanted.victims
        if not moves and not state.cordons.going.noticed:
            return
        by_uid = {record.uid: record for record in records}
        moving = self.cordons.carry_out(wanted, by_uid, scaler.uid, state.cordons)
        telling = self.cordons.tell_deadlines(records if acts else (), self.wall(), state.cordons)
        moved, _ = await asyncio.gather(moving, telling)
        await self.reporter.moved(subject_of(scaler), moved)

    def _measure(self, fleet: FleetView, decision: Decision, seen: Seen) -> None:
        self.metrics.decided(fleet, decision)
        for reason, count in seen.errors.items():
            self.metrics.scrape_errors.labels(fleet.namespace, fleet.name, reason).inc(count)

    async def _tidy(
        self,
        scaler: Scaler,
        state: ScalerState,
        records: Sequence[PodRecord],
        decision: Decision,
        other: str | None,
    ) -> None:
        """Compare the last shrink with what went, and take back costs that have no purpose."""
        if state.shrink is not None:
            subject = subject_of(scaler)
            if await self.reporter.compared(subject, state.shrink, records, self.clock()):
                state.shrink = None
        if state.shrink is None:
            chosen = {victim.uid for victim in decision.victims}
            spent = [
                record
                for record in records
                if (by := marked_by(record)) is not None
                and record.uid not in chosen
                and (by == scaler.uid or self._left_behind(by, other))
            ]
            await sweep(self.kube, spent)

    def _left_behind(self, by: str, other: str | None) -> bool:
        """Whether a mark's maker is gone: one of another owner may be about to shrink."""
        return other is None and by not in self.registry.scalers

    def _still_wanted(self, scaler: Scaler) -> bool:
        """Whether what the watches told since the round began leaves the decision ours and true."""
        latest = self.registry.scalers.get(scaler.uid)
        if latest is None or latest.generation != scaler.generation:
            return False
        return self.claims.ours(latest) and conflict(latest, self.registry) is None

    async def _scale(
        self, scaler: Scaler, state: ScalerState, sight: Sight, decision: Decision
    ) -> None:
        """Write the replicas; a failed write is told in the status and leaves nothing behind."""
        target, records = sight.target, sight.records
        by_uid = {record.uid: record for record in records}
        victims = [by_uid[one.uid] for one in decision.victims]
        shrinks = decision.desired < decision.current
        if not self._still_wanted(scaler) or self._ready_again(scaler, target, decision):
            state.again = True
            return
        state.kept = None
        try:
            if shrinks and target.ref.kind in BY_COST:
                await mark_victims(self.kube, victims, scaler.uid)
            if decision.desired == 0:
                await self.reporter.sleeping(subject_of(scaler), state.status)
            await write_replicas(self.kube, target.path, decision.desired, target.resource_version)
        except KubeError as error:
            if error.status in OVERTAKEN and decision.desired == 0:
                state.status.awake()  # after any other failure it may have been written
            not_written(scaler, state, decision, error)
            return
        now = self.clock()
        state.around.contest = state.around.contest.wrote(decision.desired, now)
        state.write_fault = None
        state.status.last_scale_time = timestamp()
        if state.memory is not None:
            gone = frozenset(record.uid for record in victims)
            state.memory = state.memory.scaled(decision.current, decision.desired, now, gone)
        emptied = state.cordons.ended((one.uid for one in decision.victims if one.cordoned), now)
        self.metrics.drained(scaler.namespace, scaler.name, "emptied", emptied)
        if shrinks:
            state.shrink = shrink_of(records, [record.uid for record in victims], now)
        await self.reporter.scaled(subject_of(scaler), decision)

    def _ready_again(self, scaler: Scaler, target: Target, decision: Decision) -> bool:
        """Whether a pod that was to be out of the endpoints is in them by the newest word."""
        out = {one.uid for one in decision.victims if one.cordoned}
        newest = self._pods_of(scaler, target)
        return any(record.ready for record in newest if record.uid in out)


def with_starts(
    fleet: FleetView,
    records: Sequence[PodRecord],
    memories: Mapping[str, PodMemory],
    learned: Learned,
    *,
    now: float,
    wall: float,
) -> FleetView:
    """The fleet with the stage that each start is in, and with what starts have taught."""
    stages = {
        record.uid: starting_of(record, memories[record.uid], learned, now=now, wall=wall)
        for record in records
    }
    pods = tuple(
        pod if (stage := stages.get(pod.uid)) is None else replace(pod, starting=stage)
        for pod in fleet.pods
    )
    return replace(fleet, pods=pods, learned=learned)


def with_obstacles(fleet: FleetView, obstacles: Mapping[str, str]) -> FleetView:
    """The fleet with the pods named that could not be cordoned a moment ago."""
    if not obstacles:
        return fleet
    pods = tuple(replace(pod, no_cordon=obstacles.get(pod.uid)) for pod in fleet.pods)
    return replace(fleet, pods=pods)


def with_guards(fleet: FleetView, guards: Mapping[str, str]) -> FleetView:
    """The fleet with the pods named that a disruption budget keeps in the endpoints."""
    pods = tuple(replace(pod, guarded_by=guards.get(pod.uid)) for pod in fleet.pods)
    return replace(fleet, pods=pods)


def unclaimed(standing: Standing) -> Fault | None:
    """That a scaler is not ours to act on; where it is another's, that is told as a conflict."""
    return Fault(Reasons.WRITE_FAILED, standing.fault) if standing.fault else None


def not_written(scaler: Scaler, state: ScalerState, decision: Decision, error: KubeError) -> None:
    """Do the round anew where something came between; else tell what is wrong."""
    state.again = error.status in OVERTAKEN
    if not state.again:
        state.write_fault = Fault(Reasons.WRITE_FAILED, f"replicas not written: {error}")
    if error.reason != BACKING_OFF:
        log.warning("%s: %d replicas were not written: %s", scaler, decision.desired, error)


def subject_of(scaler: Scaler) -> Subject:
    """Whom events and statuses are about."""
    return Subject(scaler.namespace, scaler.name, scaler.uid)
