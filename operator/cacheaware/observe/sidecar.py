"""A pod seen through its sidecar: `GET /v1/state`."""

import json
from typing import Any

from msgspec.structs import replace

from cacheaware.decide.fleet import PodLoad, Unknown
from cacheaware.observe.load import pod_load
from cacheaware.observe.look import SIDECAR, Look
from cacheaware.observe.plain_state import plain_state
from cacheaware.observe.poll import Answer
from cacheaware_sidecar.health.symptom import ERROR
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state import PodState
from cacheaware_sidecar.state_json import StateError, UnknownSchemaError, pod_state_from_json

PATH = "/v1/state"
MAX_BYTES = 256 * 1024


def look(answer: Answer, *, latency: bool = True) -> Look:
    """Read an answer of the sidecar.

    Args:
        answer: Of `/v1/state`.
        latency: Whether anything asks for the time to the first token.
    """
    if answer.content is None:
        return _unknown(answer, answer.unknown or Unknown.ERROR, answer.detail)
    try:
        state = plain_state(answer.content, latency=latency) or careful_state(answer.content)
        return look_of(state, Phase(state.phase), answer.at)
    except UnknownSchemaError as error:
        return _unknown(answer, Unknown.SCHEMA, str(error))
    except (StateError, ValueError, RecursionError) as error:
        return _unknown(answer, Unknown.INVALID, str(error))


def careful_state(content: bytes) -> PodState:
    """A state with all that may be unusual in it.

    Raises:
        StateError: a field of the wrong type.
        UnknownSchemaError: a schema that is not known here.
        ValueError: no JSON.
        RecursionError: JSON without end.
    """
    return pod_state_from_json(needed(json.loads(content)))


def needed(body: Any) -> Any:
    """A state without the histograms that no decision reads: they are most of it.

    >>> needed({"latency": {"ttft_s": {"count": 1}, "e2e_s": {"count": 1}}})
    {'latency': {'ttft_s': {'count': 1}}}
    """
    latency = body.get("latency") if isinstance(body, dict) else None
    if not isinstance(latency, dict):
        return body
    return body | {"latency": {"ttft_s": latency.get("ttft_s")}}


def _unknown(answer: Answer, unknown: Unknown, detail: str) -> Look:
    return Look(at=answer.at, way=SIDECAR, unknown=unknown, detail=detail)


def look_of(state: PodState, phase: Phase, at: float) -> Look:
    """What a sidecar's state says at the moment at which it arrived."""
    known = state.sample_age_s is not None
    return Look(
        at=at,
        way=SIDECAR,
        load=loaded(state) if known else None,
        unknown=None if known else reason_of(state),
        detail="" if known else "; ".join(state.problems),
        phase=phase,
        sample_age_s=state.sample_age_s or 0.0,
        seq=state.sample_seq,
        ttft=state.latency.ttft_s,
        drain=state.drain,
        findings=tuple(one.id for one in state.findings if one.severity == ERROR),
        start=state.start,
        counters=state.counters,
        shapes=state.warmup.shapes,
    )


def loaded(state: PodState) -> PodLoad:
    """The load, with what only a sidecar tells."""
    load = pod_load(state.running, state.waiting, state.kv, state.rates)
    if not state.adapters and state.sleeping is None:
        return load
    return replace(load, adapters=state.adapters, sleeping=state.sleeping)


def reason_of(state: PodState) -> Unknown:
    """Why a sidecar has no sample; a problem it names counts before `not yet`."""
    text = " ".join(state.problems)
    return next((one for one in Unknown if one.value in text), Unknown.NOT_YET_SEEN)
