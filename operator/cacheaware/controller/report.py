"""Telling people: status, and one event per transition."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cacheaware.act.conditions import FALSE, TRUE, Condition, Situation, conditions
from cacheaware.act.cordons import Moved
from cacheaware.act.events import NORMAL, WARNING, Events, Subject
from cacheaware.act.status import StatusMemory, StatusWriter
from cacheaware.act.verify import WrittenShrink, outcome_of
from cacheaware.decide.decision import Decision
from cacheaware.kube import BACKING_OFF, KubeError
from cacheaware.names import Conditions, Reasons
from cacheaware.pods import PodRecord
from cacheaware.telemetry import Metrics

log = logging.getLogger(__name__)

NOTEWORTHY = {
    Reasons.START_OVERDUE: WARNING,
    Reasons.OVERLOADED_AND_SILENT: WARNING,
    Reasons.FALLBACK: WARNING,
    Reasons.METRICS_UNKNOWN: WARNING,
    Reasons.DRAIN_UNAVAILABLE: NORMAL,
    Reasons.STICKY_CLIENTS: WARNING,
    Reasons.STARTS_FAILING: WARNING,
    Reasons.AT_MAXIMUM: WARNING,
    Reasons.PAUSED: NORMAL,
    Reasons.UNSCHEDULABLE: WARNING,
}
"""Reasons of decisions that are worth an event when they begin."""
BAD = {
    Conditions.TARGET_RESOLVED: FALSE,
    Conditions.METRICS_AVAILABLE: FALSE,
    Conditions.ABLE_TO_SCALE: FALSE,
    Conditions.CONFLICTED: TRUE,
    Conditions.SCHEMA_OUTDATED: TRUE,
    Conditions.CACHE_UNHEALTHY: TRUE,
}
"""Conditions that are worth an event when they go bad."""
TOLD_SECONDS = 60.0
"""What comes and goes all the time is told no more often than this."""


@dataclass(slots=True)
class ReportMemory:
    """What was told last."""

    bad: frozenset[tuple[str, str]] = frozenset()
    reason: str = ""
    advised: int | None = None
    unavailable: bool = False
    """No pod could be cordoned, for another reason than a sidecar's refusal."""
    dropped: tuple[str, ...] = ()
    told_at: dict[str, float] = field(default_factory=dict)
    """When a reason was told last."""


class Reporter:
    """Writes statuses and events of all scalers."""

    def __init__(
        self,
        status: StatusWriter,
        events: Events,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._status = status
        self._events = events
        self._metrics = metrics
        self._clock = clock

    async def report(
        self,
        subject: Subject,
        generation: int,
        found: Situation,
        status: StatusMemory,
        memory: ReportMemory,
    ) -> None:
        """Tell what a round found; a failure to tell is logged and changes nothing."""
        parts = conditions(found)
        for kind, reason, message in transitions(found, parts, memory, self._clock()):
            await self._events.send(subject, kind, reason, message)
        try:
            dropped = await self._status.write(subject, generation, found, parts, status)
        except KubeError as error:
            if error.reason != BACKING_OFF:
                log.warning("status of %s/%s: %s", subject.namespace, subject.name, error)
            return
        if dropped and not memory.dropped:
            memory.dropped = dropped
            told = f"the installed CRD dropped {', '.join(dropped)}: apply the CRD of this version"
            log.error("%s/%s: %s", subject.namespace, subject.name, told)
            await self._events.send(subject, WARNING, Reasons.SCHEMA_OUTDATED, told)

    async def recall(self, subject: Subject, memory: StatusMemory) -> None:
        """Read what the operator before us has learned; a failure leaves it for the next round."""
        try:
            await self._status.recall(subject, memory)
        except KubeError as error:
            log.debug("status of %s/%s: %s", subject.namespace, subject.name, error)

    async def sleeping(self, subject: Subject, memory: StatusMemory) -> None:
        """Remember, before the last replica goes, that it is our doing.

        Raises:
            KubeError: it was not remembered, so the replica has to stay.
        """
        await self._status.sleeping(subject, memory)

    async def scaled(self, subject: Subject, decision: Decision) -> None:
        """Replicas were written."""
        up = decision.desired > decision.current
        self._metrics.scaled.labels(subject.namespace, subject.name, "up" if up else "down").inc()
        told = f"{decision.current} -> {decision.desired}: {decision.message}"
        log.info("%s/%s: %s", subject.namespace, subject.name, told)
        reason = Reasons.SCALED_UP if up else Reasons.SCALED_DOWN
        await self._events.send(subject, NORMAL, reason, told)

    async def moved(self, subject: Subject, moved: Moved) -> None:
        """Pods were taken out of the endpoints or came back into them."""
        self._metrics.drained(subject.namespace, subject.name, "called_off", moved.lasted)
        if moved.cordoned:
            told = f"{', '.join(moved.cordoned)}: out of the endpoints, to go when empty"
            log.info("%s/%s: cordoned %s", subject.namespace, subject.name, told)
            await self._events.send(subject, NORMAL, Reasons.CORDONED, told)
        for reason, kind, pods in (
            (Reasons.UNCORDONED, NORMAL, moved.uncordoned),
            (Reasons.CORDON_UNAVAILABLE, WARNING, moved.refused),
        ):
            if pods:
                told = "; ".join(f"{name}: {why}" for name, why in pods)
                log.info("%s/%s: %s: %s", subject.namespace, subject.name, reason, told)
                await self._events.send(subject, kind, reason, told)

    async def compared(
        self, subject: Subject, shrink: WrittenShrink, records: Sequence[PodRecord], now: float
    ) -> bool:
        """Whether a shrink is over; tells when other pods went than those chosen."""
        result = outcome_of(shrink, records, now)
        if result is None:
            return False
        if result.wrong:
            metric = self._metrics.wrong_victims.labels(subject.namespace, subject.name)
            metric.inc(len(result.wrong))
            chosen = ", ".join(result.spared) or "none of them"
            told = f"deleted: {', '.join(result.wrong)}; chosen and still there: {chosen}"
            await self._events.send(subject, WARNING, Reasons.OTHER_PODS_DELETED, told)
        return True

    def forget(self, subject: Subject) -> None:
        """A scaler is gone."""
        self._events.forget(subject.uid)
        self._metrics.forget(subject.namespace, subject.name)


def transitions(
    found: Situation, parts: Sequence[Condition], memory: ReportMemory, now: float
) -> list[tuple[str, str, str]]:
    """Events that are due: (type, reason, message); remembers what they tell, and when.

    Args:
        found: By a round.
        parts: Its conditions.
        memory: Of what was told.
        now: Seconds of the clock that it is kept in.
    """
    bad = {(one.type, one.reason): one.message for one in parts if BAD.get(one.type) == one.status}
    due = [(WARNING, key[1], bad[key]) for key in bad.keys() - memory.bad]
    memory.bad = frozenset(bad)
    if found.decision is not None:
        due += decided(found, found.decision, memory)
    return fresh(due, memory, now)


def fresh(
    due: list[tuple[str, str, str]], memory: ReportMemory, now: float
) -> list[tuple[str, str, str]]:
    """Events that were not told a moment ago; the others stay due, if what they tell stays so."""
    lately = {reason for reason, at in memory.told_at.items() if now - at < TOLD_SECONDS}
    early = {reason for _, reason, _ in due} & lately
    memory.bad = frozenset(key for key in memory.bad if key[1] not in early)
    memory.reason = "" if memory.reason in early else memory.reason
    memory.advised = None if Reasons.ADVISED in early else memory.advised
    told = {one[1]: one for one in due if one[1] not in early}
    memory.told_at |= dict.fromkeys(told, now)
    return list(told.values())


def decided(
    found: Situation, decision: Decision, memory: ReportMemory
) -> list[tuple[str, str, str]]:
    """Events about the decision itself."""
    due = []
    if decision.reason != memory.reason and decision.reason in NOTEWORTHY:
        due.append((NOTEWORTHY[decision.reason], decision.reason, decision.message))
    memory.reason = decision.reason
    unavailable = Reasons.CORDON_UNAVAILABLE in decision.limited_by and not refused(found)
    if unavailable and not memory.unavailable:
        due.append((WARNING, Reasons.CORDON_UNAVAILABLE, decision.message))
    memory.unavailable = unavailable
    if found.mode == "Advise" and decision.changes and decision.desired != memory.advised:
        told = f"would scale {decision.current} -> {decision.desired}: {decision.message}"
        due.append((NORMAL, Reasons.ADVISED, told))
    memory.advised = decision.desired if found.mode == "Advise" else None
    return due


def refused(found: Situation) -> bool:
    """Whether a sidecar did not take a cordon: that has been told when it was called."""
    return found.fleet is not None and any(pod.no_cordon for pod in found.fleet.pods)
