"""The status of a CacheAwareScaler: written when a person would care, read back once each time."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cacheaware.act.conditions import Condition, Situation, dated
from cacheaware.act.events import Subject, timestamp
from cacheaware.api.status import MAX_DECISIONS, learned_of, learned_record, record_of
from cacheaware.decide.decision import Decision
from cacheaware.decide.learned import Learned
from cacheaware.kube import Kube, KubeError
from cacheaware.names import Conditions
from cacheaware.paths import scalers_path

log = logging.getLogger(__name__)

REFRESH_SECONDS = 300.0
"""Numbers in messages may be this old while nothing else changes."""
CHANGED_SECONDS = 60.0
"""Numbers may be this old while the load changes."""
NOTICEABLE = 0.25
"""A change of a signal's demand by this much of a replica is one that a person would see."""
LEARNED_SECONDS = 600.0
"""What starts have taught is written no more often than this."""
SETTLE_SECONDS = 15.0
"""What flips back and forth is written no more often than this."""


@dataclass(slots=True)
class StatusMemory:
    """What was last written of one scaler."""

    loaded: bool = False
    conditions: list[dict[str, Any]] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    last_scale_time: str | None = None
    scaled_to_zero_at: str | None = None
    """When we took the last replica; None while there is one, or somebody else took it."""
    urgent: tuple[Any, ...] = ()
    earlier: tuple[Any, ...] = ()
    """What was urgent in the write before."""
    minor: tuple[Any, ...] = ()
    demands: Mapping[str, float] = field(default_factory=dict)
    written_at: float | None = None
    learned: Learned = field(default_factory=Learned)
    """What was read at the start, or written last."""
    learned_at: float | None = None

    def awake(self) -> None:
        """The target has replicas: none are of our taking."""
        self.scaled_to_zero_at = None


class StatusWriter:
    """Writes statuses through the status subresource."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock

    async def write(
        self,
        subject: Subject,
        generation: int,
        found: Situation,
        parts: Sequence[Condition],
        memory: StatusMemory,
    ) -> tuple[str, ...]:
        """Write the status if it changed enough; returns fields that the CRD dropped.

        Args:
            subject: Whose status it is.
            generation: Of the spec that was followed.
            found: By a round.
            parts: Its conditions.
            memory: Of what was written.

        Raises:
            KubeError: it was not written.
        """
        await self.recall(subject, memory)
        times = (memory.last_scale_time, memory.scaled_to_zero_at)
        urgent, minor = signature(found, parts, generation, times)
        demands = demands_of(found.decision)
        moved = noticeable(memory.demands, demands)
        if not due(memory, urgent, minor, self._clock(), moved=moved):
            return ()
        now = timestamp()
        memory.decisions = with_decision(memory.decisions, found.decision, now)
        status = status_body(found, parts, generation, memory, now)
        if (learned := self._learned(found, memory)) is not None:
            record = learned_record(learned)
            status["learned"] = record.model_dump(by_alias=True, exclude_none=True)
        body = {"metadata": {"uid": subject.uid}, "status": status}  # refused on a namesake
        answer = await self._kube.patch(f"{path(subject)}/status", body)
        memory.conditions = status["conditions"]
        if urgent != memory.urgent:
            memory.earlier, memory.urgent = memory.urgent, urgent
        memory.minor, memory.demands, memory.written_at = minor, demands, self._clock()
        if learned is not None:
            memory.learned, memory.learned_at = learned, memory.written_at
        return dropped(status, answer.get("status") or {})

    def _learned(self, found: Situation, memory: StatusMemory) -> Learned | None:
        """What starts have taught, when that is to be written; starts are rare, and so is this."""
        learned = found.fleet.learned if found.fleet else Learned()
        known, at = memory.learned, memory.learned_at
        same = kept_of(learned) in {kept_of(known), kept_of(Learned())}
        early = at is not None and self._clock() - at < LEARNED_SECONDS
        return None if same or early else learned

    async def recall(self, subject: Subject, memory: StatusMemory) -> None:
        """Go on from what the operator before us wrote; once.

        Raises:
            KubeError: it can't be read now.
        """
        if memory.loaded:
            return
        body = await self._kube.get(path(subject))
        if body["metadata"].get("uid") != subject.uid:
            raise KubeError(404, "NotFound", "it was deleted and created anew")
        status = body.get("status") or {}
        memory.conditions = list(status.get("conditions") or ())
        memory.decisions = list(status.get("decisions") or ())
        memory.last_scale_time = memory.last_scale_time or status.get("lastScaleTime")
        memory.scaled_to_zero_at = memory.scaled_to_zero_at or status.get("scaledToZeroAt")
        memory.learned = learned_of(status)
        memory.loaded = True

    async def sleeping(self, subject: Subject, memory: StatusMemory) -> None:
        """Write that we take the last replica, before it is taken.

        An operator that starts, or takes over, then knows that the target is not paused.

        Raises:
            KubeError: it was not written.
        """
        now = timestamp()
        body = {"metadata": {"uid": subject.uid}, "status": {"scaledToZeroAt": now}}
        await self._kube.patch(f"{path(subject)}/status", body)
        memory.scaled_to_zero_at = now


def kept_of(learned: Learned) -> tuple[object, ...]:
    """What of it is worth a write: a number counts as another one from a tenth of difference on."""
    sizes, speed = learned.work.sizes, learned.prefill_tokens_per_s
    return (
        learned.starts,
        learned.nodes,
        tenths(speed),
        (tenths(sizes.prompt), tenths(sizes.answer)) if sizes else None,
        tuple(tenths(one.tokens_per_s) for one in learned.work.decode),
    )


def tenths(number: float | None) -> int | None:
    """A number so that those that differ by less than a tenth are mostly the same."""
    return round(10 * math.log(number)) if number else None


def path(subject: Subject) -> str:
    """The object's path."""
    return f"{scalers_path(subject.namespace)}/{subject.name}"


def signature(
    found: Situation,
    parts: Sequence[Condition],
    generation: int,
    times: tuple[str | None, ...],
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What is written at once when it changes, and what may wait a little."""
    decision = found.decision
    urgent = (
        generation,
        times,
        (decision.desired, decision.current) if decision else None,
        found.fleet.cordoned if found.fleet else None,
        tuple((one.type, one.status) for one in parts),
    )
    minor = (
        (decision.reason, decision.serving, decision.starting) if decision else None,
        tuple((one.type, one.reason) for one in parts),
        # It tells no numbers: other words are another pod, or another trouble.
        [one.message for one in parts if one.type == Conditions.CACHE_UNHEALTHY],
        sorted({pod.stuck for pod in found.fleet.pods if pod.stuck}) if found.fleet else None,
    )
    return urgent, minor


def demands_of(decision: Decision | None) -> dict[str, float]:
    """Each signal's demand in replicas."""
    terms = decision.terms if decision else ()
    return {one.signal: one.demand / one.per_replica for one in terms if one.per_replica}


def noticeable(before: Mapping[str, float], now: Mapping[str, float]) -> bool:
    """Whether a signal came, went or changed by much."""
    pairs = [(before[name], now[name]) for name in before.keys() & now.keys()]
    return before.keys() != now.keys() or any(abs(old - new) >= NOTICEABLE for old, new in pairs)


def due(
    memory: StatusMemory,
    urgent: tuple[Any, ...],
    minor: tuple[Any, ...],
    now: float,
    *,
    moved: bool,
) -> bool:
    """Whether the status is to be written now; what flips back and forth can wait."""
    if memory.written_at is None or urgent not in {memory.urgent, memory.earlier}:
        return True
    changed = (urgent, minor) != (memory.urgent, memory.minor)
    patience = SETTLE_SECONDS if changed else CHANGED_SECONDS if moved else REFRESH_SECONDS
    return now - memory.written_at >= patience


def with_decision(
    before: list[dict[str, Any]], decision: Decision | None, now: str
) -> list[dict[str, Any]]:
    """The last decisions, newest first; one that only repeats the newest takes its place."""
    if decision is None:
        return before
    new = record_of(decision, now).model_dump(by_alias=True, exclude_none=True)
    same = before and all(before[0].get(key) == new[key] for key in ("from", "to", "reason"))
    return [new, *(before[1:] if same else before)][:MAX_DECISIONS]


def status_body(
    found: Situation, parts: Sequence[Condition], generation: int, memory: StatusMemory, now: str
) -> dict[str, Any]:
    """The status as it is written; what is not known is left out, which clears it."""
    decision, fleet = found.decision, found.fleet
    return {
        "observedGeneration": generation,
        "currentReplicas": fleet.spec_replicas if fleet else None,
        "desiredReplicas": decision.desired if decision else None,
        "servingReplicas": decision.serving if decision else None,
        "startingReplicas": decision.starting if decision else None,
        "cordonedReplicas": fleet.cordoned if fleet else None,
        "lastScaleTime": memory.last_scale_time,
        "scaledToZeroAt": memory.scaled_to_zero_at,
        "observation": fleet.observation if fleet else None,
        "conditions": dated(parts, memory.conditions, now, generation),
        "decisions": memory.decisions,
    }


def dropped(sent: Mapping[str, Any], stored: Mapping[str, Any]) -> tuple[str, ...]:
    """Fields that were sent and are not in what the API stored: an older CRD pruned them."""
    gone = [name for name, value in sent.items() if value is not None and name not in stored]
    for name in ("conditions", "decisions"):
        if sent.get(name) and stored.get(name):
            kept = stored[name][0]
            inner = [key for key, value in sent[name][0].items() if value and key not in kept]
            gone += [f"{name}[].{key}" for key in inner]
    return tuple(f"status.{name}" for name in gone)
