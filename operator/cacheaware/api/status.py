"""`status`: every field that the operator writes, so that the API server stores each of them."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic.config import JsonDict

from cacheaware.api.base import Count, Model
from cacheaware.decide.cold_start import ENOUGH, KEPT, PERCENTILE, ColdStart, expected_s, percentile
from cacheaware.decide.decision import Decision
from cacheaware.decide.learned import Learned
from cacheaware.decide.learned_work import BANDS, Decode, Sizes, Work
from cacheaware.decide.prefill_speed import Prefilled, remembered

DATE_TIME: JsonDict = {"format": "date-time"}
INT64: JsonDict = {"format": "int64"}
MAX_INT32 = 2**31 - 1
MAX_DECISIONS = 10
MAX_TERMS = 8
MAX_LIMITS = 16
MAX_VICTIMS = 16
MAX_MESSAGE = 2048


class Condition(Model):
    """One aspect of the state, as metav1.Condition."""

    type: str = Field(min_length=1, max_length=316)
    """Ready, TargetResolved, MetricsAvailable, ScalingActive, AbleToScale, ScalingLimited or
    Conflicted."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: str = Field(min_length=1, max_length=1024)
    """Why, in one word."""
    message: str = Field(default="", max_length=MAX_MESSAGE)
    """Why, in a sentence."""
    last_transition_time: str = Field(max_length=64, json_schema_extra=DATE_TIME)
    """When `status` last changed."""
    observed_generation: int | None = Field(default=None, ge=0, json_schema_extra=INT64)
    """The generation of the spec that this condition is about."""


class TermRecord(Model):
    """One signal's part: replicas = demand / what one replica may carry, rounded up."""

    signal: str = Field(max_length=64)
    """kv-tokens, kv-usage, pending or ttft."""
    demand: float
    """What is asked of the fleet."""
    per_replica: float
    """What one replica may carry at target."""
    unit: str = Field(max_length=64)
    """tokens, pods, requests or ms."""
    replicas: Count
    """What this signal alone asks for, before bounds."""
    note: str | None = Field(default=None, max_length=512)
    """What else to know about this number."""


class VictimRecord(Model):
    """A pod that is given up."""

    pod: str = Field(max_length=253)
    """Its name."""
    uid: str | None = Field(default=None, max_length=64)
    """Its uid."""
    reason: str = Field(max_length=512)
    """Why this one."""


class DecisionRecord(Model):
    """A decision with its reason and numbers."""

    time: str = Field(max_length=64, json_schema_extra=DATE_TIME)
    """When it was made."""
    before: Count = Field(alias="from")
    """Replicas before."""
    after: Count = Field(alias="to")
    """Replicas wanted."""
    raw: Count | None = None
    """What the load alone asks for; absent when unknown."""
    reason: str = Field(max_length=128)
    """Why, in one word."""
    message: str = Field(max_length=MAX_MESSAGE)
    """Why, in a sentence with the numbers."""
    limited_by: list[str] | None = Field(default=None, max_length=MAX_LIMITS)
    """What kept it from going where the load alone would have led."""
    terms: list[TermRecord] | None = Field(default=None, max_length=MAX_TERMS)
    """The signals and their numbers."""
    victims: list[VictimRecord] | None = Field(default=None, max_length=MAX_VICTIMS)
    """The pods to give up."""
    serving: Count | None = None
    """Pods that served."""
    starting: Count | None = None
    """Pods ordered and not yet serving."""
    overdue: Count | None = None
    """Pods that should have been serving by then."""
    unknown: Count | None = None
    """Serving pods of which nothing was known."""


class StartRecord(Model):
    """One pod's way from created to serving, in seconds per stage."""

    schedule: float = Field(ge=0)
    """Until it had a node."""
    pull: float = Field(ge=0)
    """Until its containers ran: images, volumes, init containers."""
    load: float = Field(ge=0)
    """Until the engine was healthy."""
    warm: float = Field(ge=0)
    """Until it was Ready."""


class DecodeRecord(Model):
    """How fast a pod makes tokens at a number of running requests."""

    running: float = Field(ge=1)
    """Requests that ran, the mean."""
    tokens_per_second: float = Field(ge=0)
    """Of the whole pod."""
    looks: Count
    """That taught it, one a minute and pod: few are little to go by."""


class LearnedRecord(Model):
    """What pods of this workload have taught; an operator that starts goes on from it."""

    cold_start_seconds: Count | None = None
    """From created to serving, the median; absent while fewer than five starts were seen."""
    cold_start_p99_seconds: Count | None = None
    """The slowest but one in a hundred; a start that takes half as long again is overdue."""
    prefill_tokens_per_second: Count | None = None
    """Of one pod in service, as requests that ended tell it; before that by the warm-ups."""
    prefill_seconds: Count | None = None
    """Seconds of prefill that tell it; absent where the warm-ups do."""
    prompt_tokens_per_request: float | None = Field(default=None, ge=0)
    """The mean, the last half an hour counting most; absent until it was measured."""
    generation_tokens_per_request: float | None = Field(default=None, ge=0)
    """The same of answers."""
    request_looks: Count | None = None
    """Looks that taught these two, one a minute and pod: few are little to go by."""
    decode: list[DecodeRecord] | None = Field(
        default=None,
        max_length=BANDS,
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    """How fast a pod decodes, fewest running requests first; absent until it was measured."""
    starts: list[StartRecord] | None = Field(
        default=None,
        max_length=KEPT,
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    """The last starts, oldest first."""
    nodes: list[str] | None = Field(
        default=None,
        max_length=KEPT,
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    """Nodes on which a pod has served: the image is there."""


class ScalerStatus(Model):
    """What the operator sees, decides and did."""

    observed_generation: int | None = Field(default=None, ge=0, json_schema_extra=INT64)
    """The generation of the spec that this status is about."""
    current_replicas: Count | None = None
    """Replicas that the target asks for."""
    desired_replicas: Count | None = None
    """Replicas that the operator wants."""
    serving_replicas: Count | None = None
    """Pods that serve."""
    starting_replicas: Count | None = None
    """Pods ordered and not yet serving."""
    cordoned_replicas: Count | None = None
    """Pods out of the endpoints, to be given up when they are empty."""
    last_scale_time: str | None = Field(default=None, max_length=64, json_schema_extra=DATE_TIME)
    """When the operator last changed the replicas."""
    scaled_to_zero_at: str | None = Field(default=None, max_length=64, json_schema_extra=DATE_TIME)
    """When the operator took the last replica; without it 0 replicas mean that somebody paused the
    target."""
    observation: str | None = Field(default=None, max_length=32)
    """How the pods are seen: Sidecar, Direct or Mixed."""
    conditions: list[Condition] | None = Field(
        default=None,
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """The state in its aspects; Ready sums them up, and its reason is the last decision's."""
    learned: LearnedRecord | None = None
    """What starts have taught; written at most each ten minutes."""
    decisions: list[DecisionRecord] | None = Field(
        default=None,
        max_length=MAX_DECISIONS,
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    """The last decisions, newest first."""


def record_of(decision: Decision, time: str) -> DecisionRecord:
    """A decision as the status keeps it: long texts and lists cut to what the schema allows.

    Args:
        decision: The decision.
        time: When it was made, RFC 3339 in UTC.
    """
    return DecisionRecord(
        time=time,
        **{"from": max(0, decision.current), "to": max(0, decision.desired)},
        raw=None if decision.raw is None else min(decision.raw, MAX_INT32),
        reason=decision.reason,
        message=shortened(decision.message, MAX_MESSAGE),
        limited_by=list(decision.limited_by[:MAX_LIMITS]) or None,
        terms=[
            TermRecord(
                signal=term.signal,
                demand=round(term.demand, 3),
                per_replica=round(term.per_replica, 3),
                unit=term.unit,
                replicas=min(term.replicas, MAX_INT32),
                note=shortened(term.note, 512) or None,
            )
            for term in decision.terms[:MAX_TERMS]
        ]
        or None,
        victims=[
            VictimRecord(
                pod=victim.pod, uid=victim.uid or None, reason=shortened(victim.reason, 512)
            )
            for victim in decision.victims[:MAX_VICTIMS]
        ]
        or None,
        serving=decision.serving,
        starting=decision.starting,
        overdue=decision.overdue,
        unknown=decision.unknown,
    )


def shortened(text: str, limit: int) -> str:
    """A text of at most `limit` characters; a cut one ends in an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def learned_record(learned: Learned) -> LearnedRecord:
    """What starts have taught, as the status keeps it."""
    totals, sizes = [one.total for one in learned.starts], learned.work.sizes
    median, slowest = expected_s(learned.starts), percentile(totals, PERCENTILE)
    return LearnedRecord(
        cold_start_seconds=None if median is None else round(median),
        cold_start_p99_seconds=None if slowest is None or len(totals) < ENOUGH else round(slowest),
        prefill_tokens_per_second=None
        if learned.prefill_tokens_per_s is None
        else min(MAX_INT32, round(learned.prefill_tokens_per_s)),
        prefill_seconds=min(MAX_INT32, int(learned.prefilled.seconds))
        if learned.prefilled.known
        else None,
        prompt_tokens_per_request=None if sizes is None else round(sizes.prompt, 1),
        generation_tokens_per_request=None if sizes is None else round(sizes.answer, 1),
        request_looks=None if sizes is None else min(MAX_INT32, sizes.looks),
        decode=[
            DecodeRecord(
                running=max(1.0, round(one.running, 1)),
                tokens_per_second=round(one.tokens_per_s, 1),
                looks=min(MAX_INT32, one.looks),
            )
            for one in learned.work.decode
        ]
        or None,
        starts=[
            StartRecord(
                schedule=round(one.schedule, 1),
                pull=round(one.pull, 1),
                load=round(one.load, 1),
                warm=round(one.warm, 1),
            )
            for one in learned.starts
        ]
        or None,
        nodes=list(learned.nodes) or None,
    )


def learned_of(status: Mapping[str, Any]) -> Learned:
    """What an operator before us has learned; nothing where that can't be read."""
    try:
        record = LearnedRecord.model_validate(status.get("learned") or {})
    except ValidationError:
        return Learned()
    starts = tuple(
        ColdStart(schedule=one.schedule, pull=one.pull, load=one.load, warm=one.warm)
        for one in record.starts or ()
    )
    speed, seconds = record.prefill_tokens_per_second, record.prefill_seconds
    return Learned(
        work=work_of(record),
        starts=starts,
        nodes=tuple(record.nodes or ()),
        prefill_tokens_per_s=float(speed) if speed else None,
        prefilled=remembered(float(speed), float(seconds)) if speed and seconds else Prefilled(),
    )


def work_of(record: LearnedRecord) -> Work:
    """What requests were like, as the status kept it."""
    prompt, answer = record.prompt_tokens_per_request, record.generation_tokens_per_request
    known = prompt is not None and answer is not None
    return Work(
        sizes=Sizes(prompt or 0.0, answer or 0.0, record.request_looks or 0) if known else None,
        decode=tuple(
            Decode(one.running, one.tokens_per_second, one.looks) for one in record.decode or ()
        ),
    )
