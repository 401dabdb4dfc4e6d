"""`PodState` as JSON and back: the one frozen contract between sidecar and operator.

`{"schema": 1, "phase": ..., "phase_age_s": ..., "sample_age_s": ..., "sample_seq": ...,
"engine": ..., "version": ..., "models": [...], "running": ..., "waiting": ..., "kv": {...},
"rates": {...}, "counters": {...}, "latency": {"ttft_s", "tpot_s", "e2e_s": each {"count", "sum",
"buckets": [[le, n], ...]}}, "warmup": {...}, "start": {...}, "drain": {...}, "adapters": [...],
"sleeping": ..., "findings": [{"id", "severity", "message"}], "canary": {...} or
null, "problems": [...]}`, with the
names of the dataclasses' fields.

JSON has no infinity and no NaN: the last bucket's bound is the string "+Inf", and a number that
is NaN or out of its range is null. Reading takes every schema since 1, ignores fields that it
does not know and takes missing ones as unknown: fleets run old sidecars for months.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from operator import lt
from typing import Any, Final

from cacheaware_sidecar.clip import clipped
from cacheaware_sidecar.engines import Histogram, Rates
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state import (
    SCHEMA,
    CanaryState,
    Counters,
    DrainState,
    FindingState,
    KvState,
    Latency,
    PodState,
    ShapeState,
    StartState,
    WarmupState,
)

PHASES: Final = tuple(phase.value for phase in Phase)
RATIOS: Final = frozenset({"usage", "usage_max", "prefix_hit_ratio", "changed_ratio"})
INFINITY: Final = "+Inf"
LARGEST: Final = 1e300
NUMBERS: Final = frozenset({int, float})
"""Types, as JSON gives them: true and false are none."""


class StateError(ValueError):
    """One line: the field of the state, its value, and what is allowed."""


class UnknownSchemaError(StateError):
    """The state is of a schema that this version does not know."""


def pod_state_to_json(state: PodState) -> dict[str, Any]:
    """What `GET /v1/state` answers; every number finite, unknown as null."""
    body = asdict(state)
    body["latency"] = {
        name: None if histogram is None else histogram_to_json(histogram)
        for name in ("ttft_s", "tpot_s", "e2e_s")
        for histogram in [getattr(state.latency, name)]
    }
    clean: dict[str, Any] = _clean(body)
    return clean


def histogram_to_json(histogram: Histogram) -> dict[str, Any]:
    """Count, sum and [bound, count] pairs, the last bound as "+Inf"."""
    buckets = [
        [INFINITY if math.isinf(bound) else bound, count] for bound, count in histogram.buckets
    ]
    return {"count": histogram.count, "sum": histogram.sum, "buckets": buckets}


def _clean(value: Any) -> Any:
    """Tuples as lists, and no number that JSON can't hold."""
    if isinstance(value, dict):
        return {name: _clean(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def pod_state_from_json(body: Any) -> PodState:
    """Read what a sidecar answered.

    Raises:
        UnknownSchemaError: A schema that is not known here.
        StateError: A field of the wrong type.
    """
    state = _Fields("state", body)
    schema = state.raw("schema")
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        raise UnknownSchemaError(f"state.schema is {schema!r}; this version reads 1 to {SCHEMA}")
    if (phase := state.text("phase")) not in PHASES:
        raise StateError(f"state.phase is {phase!r}; allowed: {', '.join(PHASES)}")
    kv, warmup, drain = (state.child(name) for name in ("kv", "warmup", "drain"))
    return PodState(
        schema=schema,
        phase=str(phase),
        **state.numbers("phase_age_s", "sample_age_s", "running", "waiting"),
        sample_seq=state.whole("sample_seq"),
        engine=state.text("engine"),
        version=state.text("version"),
        models=state.texts("models"),
        kv=_kv(kv),
        rates=Rates(**state.child("rates").numbers(*Rates.__dataclass_fields__)),
        counters=Counters(**state.child("counters").numbers(*Counters.__dataclass_fields__)),
        latency=_latency(state.child("latency")),
        warmup=WarmupState(
            step=warmup.whole("step") or 0,
            steps=warmup.whole("steps") or 0,
            verdict=warmup.text("verdict"),
            duration_s=warmup.number("duration_s"),
            requests=warmup.whole("requests"),
            prompt_tokens=warmup.whole("prompt_tokens"),
            generation_tokens=warmup.whole("generation_tokens"),
            shapes=tuple(map(_shape, warmup.children("shapes"))),
        ),
        start=StartState(**state.child("start").numbers("loading_s", "warming_s")),
        drain=DrainState(
            **drain.numbers(
                "deadline_s", "running", "waiting", "cordoned_s", "lease_s", "arrival_age_s"
            ),
            cordoned_by=drain.text("cordoned_by"),
            empty=drain.known_flag("empty"),
        ),
        adapters=state.texts("adapters"),
        sleeping=state.known_flag("sleeping"),
        findings=tuple(map(_finding, state.children("findings"))),
        canary=None if state.raw("canary") is None else _canary(state.child("canary")),
        problems=state.texts("problems"),
    )


def _canary(canary: "_Fields") -> CanaryState:
    return CanaryState(
        verdict=canary.text("verdict"),
        reason=canary.text("reason"),
        baseline=canary.text("baseline"),
        **canary.numbers(
            "age_s", "difference_nats", "tolerance_nats", "largest_nats", "changed_ratio"
        ),
        answered=canary.whole("answered") or 0,
        failed=canary.whole("failed") or 0,
        skipped=canary.whole("skipped") or 0,
        tokens=canary.whole("tokens"),
        first_changed=canary.whole("first_changed"),
        drifted_runs=canary.whole("drifted_runs") or 0,
    )


def _finding(finding: "_Fields") -> FindingState:
    names = ("id", "severity", "message")
    return FindingState(**{name: finding.text(name) or "" for name in names})


def _kv(kv: "_Fields") -> KvState:
    tokens_and_bytes = ("used_bytes", "capacity_bytes", "used_tokens", "capacity_tokens")
    return KvState(
        **kv.numbers("usage", "usage_max", *tokens_and_bytes),
        page_bytes=kv.whole("page_bytes"),
        block_size=kv.whole("block_size"),
        estimated=kv.flag("estimated"),
    )


def _shape(shape: "_Fields") -> ShapeState:
    return ShapeState(
        name=shape.text("name") or "",
        requests=shape.whole("requests") or 0,
        tokens=shape.whole("tokens"),
        **shape.numbers("first_s", "last_s"),
        note=shape.text("note"),
    )


def _latency(latency: "_Fields") -> Latency:
    names = ("ttft_s", "tpot_s", "e2e_s")
    there = [name for name in names if latency.raw(name) is not None]
    return Latency(**{name: _histogram(latency.child(name)) for name in there})


def histogram_from_json(body: Any) -> Histogram | None:
    """A histogram as `histogram_to_json` wrote it; None where it is none.

    Raises:
        StateError: A field of the wrong type.
    """
    return _histogram(_Fields("histogram", body))


def _histogram(fields: "_Fields") -> Histogram | None:
    """None where count or sum are unknown, or the bounds do not rise."""
    count, total = fields.number("count"), fields.number("sum")
    buckets = tuple(fields.pairs("buckets"))
    bounds = [bound for bound, _ in buckets]
    rising = all(map(lt, bounds, bounds[1:])) and not any(map(math.isnan, bounds))
    if count is None or total is None or not rising:
        return None
    if not all(0 <= each < math.inf for _, each in buckets):
        return None
    return Histogram(count, total, buckets)


class _Fields:
    """One JSON object: a missing field is unknown, one of the wrong type an error."""

    def __init__(self, path: str, body: Any) -> None:
        if body is not None and not isinstance(body, (dict, Mapping)):  # the first is told fast
            raise StateError(f"{path} is {clipped(repr(body))}; an object is allowed")
        self._path = path
        self._body: Mapping[str, Any] = body or {}

    def raw(self, name: str) -> Any:
        return self._body.get(name)

    def child(self, name: str) -> "_Fields":
        return _Fields(f"{self._path}.{name}", self.raw(name))

    def children(self, name: str) -> list["_Fields"]:
        value = self.raw(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(name, "a list of objects is allowed")
        return [_Fields(f"{self._path}.{name}[{at}]", each) for at, each in enumerate(value)]

    def _wrong(self, name: str, allowed: str) -> StateError:
        return StateError(f"{self._path}.{name} is {clipped(repr(self.raw(name)))}; {allowed}")

    def number(self, name: str) -> float | None:
        """A number from 0 (ratios to 1); out of that range it is unknown."""
        value = self._body.get(name)
        if value is None:
            return None
        if type(value) not in NUMBERS:
            raise self._wrong(name, "a number or null is allowed")
        most = 1.0 if name in RATIOS else LARGEST
        return value if 0 <= value <= most else None

    def numbers(self, *names: str) -> dict[str, Any]:
        return {name: self.number(name) for name in names}

    def whole(self, name: str) -> int | None:
        value = self.number(name)
        if value is not None and value != int(value):
            raise self._wrong(name, "a whole number or null is allowed")
        return None if value is None else int(value)

    def text(self, name: str) -> str | None:
        value = self.raw(name)
        if value is None or isinstance(value, str):
            return value
        raise self._wrong(name, "a string or null is allowed")

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.raw(name)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        raise self._wrong(name, "a list of strings is allowed")

    def flag(self, name: str) -> bool:
        return bool(self.known_flag(name))

    def known_flag(self, name: str) -> bool | None:
        value = self.raw(name)
        if value is None or isinstance(value, bool):
            return value
        raise self._wrong(name, "true, false or null is allowed")

    def pairs(self, name: str) -> list[tuple[float, float]]:
        """[bound, count] pairs; the bound may be "+Inf"."""
        value = self.raw(name)
        if value is None:
            return []
        if isinstance(value, list) and all(map(_is_pair, value)):
            return [(float(bound), float(count)) for bound, count in value]
        raise self._wrong(name, 'a list of [bound or "+Inf", count] is allowed')


def _is_pair(value: Any) -> bool:
    if type(value) is not list or len(value) != 2:
        return False
    bound, count = value
    return type(count) in NUMBERS and (type(bound) in NUMBERS or bound == INFINITY)
