"""Pages of engines and states of sidecars that people have kept, as rounds.

Each pod's files in the order of time are its looks, one every interval; the pods are taken to have
been there and Ready from long before to the end.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from pydantic import JsonValue

from cacheaware.api.spec import DOWN_POLICIES, UP_POLICIES
from cacheaware.decide.fleet import Unknown
from cacheaware.observe import direct, sidecar
from cacheaware.observe.look import DIRECT, SIDECAR
from cacheaware.observe.poll import Answer
from cacheaware.recording import lines
from cacheaware.recording.lines import RecordingError
from cacheaware.recording.privacy import Aliases, direct_look, sidecar_look
from cacheaware_sidecar.state_json import StateError, UnknownSchemaError, pod_state_from_json

THERE_FOR_S = 86_400.0
"""How long the pods have been there when it begins."""
BEHAVIOR: dict[str, JsonValue] = {
    "scaleUp": {"policies": UP_POLICIES},
    "scaleDown": {"policies": DOWN_POLICIES},
}
"""What the API server fills in where a spec says nothing; a spec without it was pruned."""
SPEC: dict[str, JsonValue] = {"minReplicas": 1, "maxReplicas": 10, "behavior": BEHAVIOR}
"""Where no scaler is given."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What one pod answered once."""

    content: bytes
    is_state: bool


def answers_of(content: bytes) -> list[Kept]:
    """What a file holds: a metrics page, a state, or states, one on each line.

    Raises:
        RecordingError: it is JSON, but no state.
    """
    if not content.lstrip().startswith(b"{"):
        return [Kept(content, is_state=False)]
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        kept = [line for line in content.split(b"\n") if line.strip()]
    else:
        kept = [content]
    for number, line in enumerate(kept, 1):
        check_state(line, f"line {number}: " if len(kept) > 1 else "")
    return [Kept(line, is_state=True) for line in kept]


def check_state(content: bytes, where: str) -> None:
    """Refuse what is no state.

    Raises:
        RecordingError: a field of it is wrong.
    """
    try:
        pod_state_from_json(json.loads(content))
    except UnknownSchemaError:
        return  # the operator takes it for unknown data, and so do we
    except StateError as error:
        raise RecordingError(f"{where}{error}") from None
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{where}not JSON: {error}") from None


def header_for(round_seconds: float) -> lines.Header:
    """What is known of pods that are only known by their answers."""
    return lines.Header(
        kind=lines.KIND, target_kind="Deployment", spec=SPEC, round_seconds=round_seconds
    )


def rounds_of(pods: Sequence[Iterator[Kept]], interval_s: float) -> Iterator[lines.Round]:
    """A round for each place in the pods' answers; a pod that has no more could not be asked."""
    aliases = Aliases("", "Deployment")
    for number in count():
        answers = [next(each, None) for each in pods]
        if not any(answers):
            return
        at_s = number * interval_s
        yield lines.Round(
            at_s=at_s,
            replicas=len(pods),
            pods=tuple(
                pod_of(place, None if kept is None else look_at(kept, at_s, aliases))
                for place, kept in enumerate(answers, 1)
            ),
        )


def pod_of(place: int, look: lines.Look | None) -> lines.Pod:
    """A pod that has long been Ready."""
    return lines.Pod(
        name=f"p{place}",
        uid=f"p{place}",
        created_s=-THERE_FOR_S,
        scheduled_s=-THERE_FOR_S,
        started_s=-THERE_FOR_S,
        ready=True,
        ready_since_s=-THERE_FOR_S,
        look=look,
    )


def look_at(kept: Kept, at_s: float, aliases: Aliases) -> lines.Look:
    """What a pod answered at its turn."""
    answer = Answer(at_s, content=kept.content)
    if kept.is_state:
        return sidecar_answer(answer, at_s, aliases)
    return direct_answer([answer], at_s, aliases)


def sidecar_answer(answer: Answer, at_s: float, aliases: Aliases) -> lines.Look:
    """What a sidecar answered, or why nothing that can be read.

    Args:
        answer: of its `/v1/state`.
        at_s: when, since the recording began.
        aliases: the names so far.
    """
    look = sidecar.look(answer)
    if look.phase is None or answer.content is None:
        return unknown_look(SIDECAR, at_s, look.unknown)
    return sidecar_look(pod_state_from_json(json.loads(answer.content)), at_s, aliases)


def direct_answer(
    answers: Sequence[Answer], at_s: float, aliases: Aliases, engine: str = "auto"
) -> lines.Look:
    """What a pod's engines answered, or why nothing that can be read."""
    look = direct.look(answers, lambda _: None, engine)
    if look.load is None:
        return unknown_look(DIRECT, at_s, look.unknown)
    return direct_look(look.samples, at_s, aliases)


def unknown_look(way: str, at_s: float, unknown: Unknown | None) -> lines.Look:
    """That a pod told nothing."""
    return lines.Look.model_validate(
        {"way": way, "at_s": round(at_s, 3), "unknown": unknown or Unknown.ERROR}
    )
