"""The lines of a recording: a header, then one for each round, as JSON.

Times are seconds since the recording began, negative for what came before; there is no wall clock
in it, and no name. A field that is absent is unknown, or as it usually is; fields are only added,
and those that a reader does not know are passed over.
"""

from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from cacheaware.decide.fleet import Unknown
from cacheaware_sidecar.clip import clipped

SCHEMA = 1
KIND: Literal["cacheaware-recording"] = "cacheaware-recording"
T = TypeVar("T", bound=BaseModel)


class RecordingError(ValueError):
    """One line: where, which field, its value, and what is allowed."""


class Line(BaseModel):
    """The base of all parts of a line."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, strict=True, populate_by_name=True, allow_inf_nan=False
    )


class Start(Line):
    """A cold start that was known when the recording began; seconds of each stage."""

    schedule: float = Field(ge=0)
    pull: float = Field(ge=0)
    load: float = Field(ge=0)
    warm: float = Field(ge=0)


class Header(Line):
    """What was recorded."""

    kind: Literal["cacheaware-recording"]
    version: int = Field(default=SCHEMA, alias="schema")
    target_kind: str = Field(max_length=63)
    """Of the target: `Deployment`, `StatefulSet`, ..."""
    spec: dict[str, JsonValue]
    """The scaler's spec without names."""
    round_seconds: float = Field(gt=0, le=3600)
    gpus_per_replica: int | None = Field(default=None, ge=1)
    starts: tuple[Start, ...] = ()
    nodes: tuple[str, ...] = ()
    """Nodes on which pods had served."""


class Sample(Line):
    """One engine's page, as `EngineSample` has it."""

    engine: str
    engines: int | None = None
    running: float | None = None
    waiting: float | None = None
    usage: float | None = None
    usage_max: float | None = None
    used_tokens: float | None = None
    capacity_tokens: float | None = None
    num_blocks: int | None = None
    block_size: int | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    prefix_hit_ratio: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    requests: float | None = None
    preemptions: float | None = None
    prefill_seconds: float | None = None
    prefilled_tokens: float | None = None
    ttft: dict[str, JsonValue] | None = None
    tpot: dict[str, JsonValue] | None = None
    e2e: dict[str, JsonValue] | None = None
    sleeping: bool | None = None
    started_at: float | None = None
    """A number for each start of the engine, not its time."""


class Look(Line):
    """What a pod answered."""

    way: Literal["Sidecar", "Direct"]
    at_s: float
    """When the answer was there."""
    state: dict[str, Any] | None = None
    """Of a sidecar: `/v1/state` without names."""
    samples: tuple[Sample, ...] = ()
    """Of engines that were asked themselves: a page each."""
    unknown: Unknown | None = None
    """Why there is neither."""


class Pod(Line):
    """A pod of the target."""

    name: str
    """p1, p2, ...; where ordinals matter they are the pod's own."""
    uid: str
    node: str | None = None
    created_s: float
    scheduled_s: float | None = None
    started_s: float | None = None
    ready: bool = False
    ready_since_s: float | None = None
    was_ready: bool = False
    startup_budget_s: float | None = None
    terminating: bool = False
    pending: bool = False
    disrupted: bool = False
    restarts: int = 0
    stuck: str | None = None
    final_drain: bool = False
    look: Look | None = None
    """None where it could not be asked: it has no address."""


class Round(Line):
    """What a round saw."""

    at_s: float = Field(ge=0)
    replicas: int = Field(ge=0, lt=2**31)
    """That the target asked for."""
    rollout: bool = False
    pods: tuple[Pod, ...] = ()


def header_of(line: bytes) -> Header:
    """Read a header.

    Raises:
        RecordingError: it is none, or of a schema that is not known here.
    """
    found = read(line, Header)
    if not 1 <= found.version <= SCHEMA:
        raise RecordingError(f"schema is {found.version}; this version reads 1 to {SCHEMA}")
    return found


def round_of(line: bytes) -> Round:
    """Read a round.

    Raises:
        RecordingError: it is none.
    """
    return read(line, Round)


def read(line: bytes, model: type[T]) -> T:
    """Read a line.

    Raises:
        RecordingError: its first problem.
    """
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        raise RecordingError(first_problem(error)) from None


def first_problem(error: ValidationError) -> str:
    """The first problem, as field, value and what is allowed."""
    problem = error.errors(include_url=False)[0]
    allowed = problem["msg"].removeprefix("Input should be ").removeprefix("a ")
    where = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in problem["loc"])
    if problem["type"] == "json_invalid":
        return f"not JSON: {problem['ctx']['error']}"
    if problem["type"] == "missing":
        return f"{where.removeprefix('.')} is missing"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    value = clipped(repr(problem["input"]))
    return f"{where.removeprefix('.') or 'the line'} is {value}; allowed: {allowed}"


def written(line: Line) -> str:
    """A line as it is written, with its end: what is as usual is left out."""
    body = line.model_dump_json(exclude_defaults=True, by_alias=True)
    if isinstance(line, Header):  # tells readers what they have before anything else
        body = line.model_dump_json(exclude_none=True, by_alias=True)
    return body + "\n"
