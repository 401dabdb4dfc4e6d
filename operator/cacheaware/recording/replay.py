"""Today's decision on what rounds saw: the operator's own code, but for what it asks and writes.

It is open loop: each round decides on the fleet as it was recorded, not on the one that earlier
decisions would have led to. What the recorded scaler did counts as done: a pod that it cordoned is
given up, and in mode Scale each change of the replicas is one that was written. In Advise a change
is somebody else's, as it was.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any

from msgspec.structs import replace
from pydantic import ValidationError

from cacheaware.api.models import CacheAwareScaler
from cacheaware.api.policy import policy_of
from cacheaware.controller.round import with_starts
from cacheaware.decide import Memory, decide
from cacheaware.decide.circumstances import Circumstances
from cacheaware.decide.cold_start import ColdStart, percentile
from cacheaware.decide.decision import Decision
from cacheaware.decide.fleet import FleetView
from cacheaware.decide.learned import Learned
from cacheaware.decide.policy import Policy
from cacheaware.decide.room import Room, roomed
from cacheaware.observe import direct, sidecar
from cacheaware.observe.learning import taught
from cacheaware.observe.look import Look
from cacheaware.observe.memory import PodMemory, measured
from cacheaware.observe.observer import fleet_view, seen_of
from cacheaware.observe.selector import parse_selector
from cacheaware.observe.target import Target, TargetRef
from cacheaware.pods import PodRecord
from cacheaware.recording import lines
from cacheaware.recording.hindsight import Moment
from cacheaware.recording.lines import RecordingError, first_problem
from cacheaware.recording.privacy import SCALER
from cacheaware_sidecar.engines import EngineSample
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state_json import StateError, histogram_from_json, pod_state_from_json

EPOCH = float(2**26)
"""When recordings begin in the clock of the API: any time that leaves none of theirs at 0."""
STALE_ROUNDS = 3
GAP_ROUNDS = 3
"""A longer pause between rounds was not watched."""
API_VERSION = "apps/v1"
NAME = "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A round and what would have been decided in it."""

    at_s: float
    decision: Decision
    cordoned: int
    """Pods that were out of the endpoints."""


def moments_of(steps: Sequence[Step], round_s: float) -> tuple[list[Moment], float]:
    """What each round stood for: until the next one, or for one interval where that is far away.

    Returns:
        The moments, and the seconds that nobody watched.
    """
    times = [step.at_s for step in steps]
    lengths = [*(after - before for before, after in pairwise(times)), round_s]
    watched = [one if one <= GAP_ROUNDS * round_s else round_s for one in lengths]
    moments = [
        Moment(
            at_s=step.at_s,
            seconds=seconds,
            replicas=step.decision.current,
            serving=step.decision.serving,
            need=need_of(step.decision),
        )
        for step, seconds in zip(steps, watched, strict=True)
    ]
    return moments, sum(lengths) - sum(watched)


def need_of(decision: Decision) -> int | None:
    """Replicas that the load of a round needed, without what was foreseen; None: not known."""
    need = decision.inputs.get("need")
    return ceil(need) if isinstance(need, float) else decision.raw


def scaler_of(kind: str, spec: Mapping[str, Any]) -> CacheAwareScaler:
    """A recorded spec as an object again.

    Raises:
        RecordingError: it is not allowed.
    """
    target = {"apiVersion": API_VERSION, "kind": kind, "name": NAME}
    try:
        return CacheAwareScaler.model_validate({"spec": {**spec, "scaleTargetRef": target}})
    except ValidationError as error:
        raise RecordingError(first_problem(error)) from None


class Replay:
    """Decides round by round.

    Args:
        header: of the recording.
        scaler: what to decide by, in place of the recorded spec.
    """

    def __init__(self, header: lines.Header, scaler: CacheAwareScaler) -> None:
        self._header = header
        self.policy: Policy = replace(policy_of(scaler), round_seconds=header.round_seconds)
        starts = tuple(
            ColdStart(schedule=one.schedule, pull=one.pull, load=one.load, warm=one.warm)
            for one in header.starts
        )
        self.learned = Learned(starts=starts, nodes=header.nodes)
        self._acted = header.spec.get("mode") == "Scale"
        self._pods: dict[str, PodMemory] = {}
        self._memory: Memory | None = None
        self._room: Room | None = None
        self._last: Step | None = None

    @property
    def cold_start_s(self) -> float | None:
        """The median cold start that was seen; None where none was."""
        return percentile([one.total for one in self.learned.starts], 50)

    def steps(self, rounds: Iterable[lines.Round]) -> Iterator[Step]:
        """Decide each round.

        Raises:
            RecordingError: a state in it can't be read, or time goes backwards.
        """
        return (self.step(one) for one in rounds)

    def step(self, seen: lines.Round) -> Step:
        """Decide one round."""
        if self._last is not None and seen.at_s < self._last.at_s:
            raise RecordingError(
                f"at_s is {seen.at_s:g}; allowed: no less than in the round before,"
                f" {self._last.at_s:g}"
            )
        now = seen.at_s
        fleet = self._surrounded(self._fleet(seen), now)
        memory = self._recalled(fleet, now)
        decision, self._memory = decide(fleet, self.policy, memory, now)
        self._last = Step(at_s=now, decision=decision, cordoned=fleet.cordoned)
        return self._last

    def _fleet(self, seen: lines.Round) -> FleetView:
        now, wall = seen.at_s, EPOCH + seen.at_s
        records = [record_of(one) for one in seen.pods]
        looks = [
            look_of(one, place, self._pods.get(one.uid, PodMemory()))
            for place, one in enumerate(seen.pods)
        ]
        stale_s = STALE_ROUNDS * self._header.round_seconds
        found = seen_of(records, looks, self._pods, now=now, wall=wall, stale_s=stale_s)
        if self._last is None:
            there = frozenset(record.uid for record in records if record.ready)
            self.learned = replace(self.learned, counted=there)
        self._pods = found.memories
        self.learned, _ = taught(self.learned, records, self._pods, now)
        fleet = fleet_view(
            namespace=NAME,
            name=NAME,
            uid=SCALER,
            target=target_of(self._header.target_kind, seen),
            seen=found,
            conflict=None,
        )
        return with_starts(fleet, records, self._pods, self.learned, now=now, wall=wall)

    def _surrounded(self, fleet: FleetView, now: float) -> FleetView:
        """The fleet with what a recording tells of its circumstances."""
        self._room = roomed(self._room, fleet, now)
        around = Circumstances(
            gpus_per_replica=self._header.gpus_per_replica,
            fit=self._room.fit(now) if self._room else None,
        )
        return replace(fleet, around=around)

    def _recalled(self, fleet: FleetView, now: float) -> Memory:
        """The memory of the round before, with what was done since."""
        memory, last = self._memory, self._last
        if memory is None or last is None:
            return Memory.start(fleet.spec_replicas, now)
        before, after = last.decision.current, fleet.spec_replicas
        there = {pod.uid for pod in fleet.pods}
        if self._acted and before != after and min(before, after) > 0:
            chosen = frozenset(one.uid for one in last.decision.victims)
            gone = chosen if after == last.decision.desired else memory.cordons - there
            memory = memory.scaled(before, after, last.at_s, gone)
        ours = frozenset(pod.uid for pod in fleet.pods if pod.cordoned_by == SCALER)
        return memory if ours <= memory.cordons else memory.cordoning(ours, now)


def target_of(kind: str, seen: lines.Round) -> Target:
    """The target as it stood in a round."""
    return Target(
        ref=TargetRef(NAME, API_VERSION, kind, NAME),
        path="",
        spec_replicas=seen.replicas,
        selector=parse_selector(f"app={NAME}"),
        resource_version="",
        rollout=seen.rollout,
    )


def record_of(pod: lines.Pod) -> PodRecord:
    """A pod's object."""

    def at(seconds: float | None) -> float | None:
        return None if seconds is None else EPOCH + seconds

    return PodRecord(
        namespace=NAME,
        name=pod.name,
        uid=pod.uid,
        labels={},
        node=pod.node,
        ready=pod.ready,
        ready_since=at(pod.ready_since_s),
        was_ready=pod.was_ready,
        created=EPOCH + pod.created_s,
        scheduled_at=at(pod.scheduled_s),
        started_at=at(pod.started_s),
        startup_budget_s=pod.startup_budget_s,
        terminating=pod.terminating,
        pending=pod.pending,
        disrupted=pod.disrupted,
        restarts=pod.restarts,
        stuck=pod.stuck,
        final_drain=pod.final_drain,
    )


def look_of(pod: lines.Pod, place: int, memory: PodMemory) -> Look | None:
    """What the observer made of a pod's answer.

    Raises:
        RecordingError: a field of it can't be read.
    """
    look = pod.look
    if look is None:
        return None
    where = f"pods[{place}].look"
    try:
        if look.state is not None:
            state = pod_state_from_json(look.state)
            return sidecar.look_of(state, Phase(state.phase), look.at_s)
        if look.samples:
            samples = tuple(map(sample_of, look.samples))
            return direct.look_of(samples, measured(memory, look.at_s), look.at_s)
    except StateError as error:
        raise RecordingError(f"{where}.{error}") from None
    if look.unknown is None:
        raise RecordingError(f"{where} has neither state nor samples nor unknown")
    return Look(at=look.at_s, way=look.way, unknown=look.unknown)


def sample_of(sample: lines.Sample) -> EngineSample:
    """An engine's page.

    Raises:
        StateError: a histogram can't be read.
    """
    told: dict[str, Any] = sample.model_dump()
    for name in ("ttft", "tpot", "e2e"):
        if told[name] is not None:
            told[name] = histogram_from_json(told[name])
    return EngineSample(**told)
