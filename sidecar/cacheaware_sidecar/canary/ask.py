"""Asks an engine the canary: one request, in the first way that gives log probabilities."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cacheaware_sidecar import served_models
from cacheaware_sidecar.canary.baseline import Identity
from cacheaware_sidecar.canary.completion import NoLogprobsError, Run, Way, read_run, request_body
from cacheaware_sidecar.engine_answers import Answer, is_completion, is_missing, refused, said
from cacheaware_sidecar.engine_client import CANARY_HEADERS

TIMEOUT_S: Final = 30.0
"""Longest time one request may take."""


class Engine(Protocol):
    """The engine as the canary sees it."""

    async def ask(
        self, path: str, body: dict[str, Any], timeout_s: float, headers: Mapping[str, str]
    ) -> Answer:
        """Posts a request."""
        ...

    async def models(self) -> Any:
        """The JSON of /v1/models, or None."""
        ...

    async def version(self) -> str | None:
        """The engine's version, where it tells."""
        ...


class UnansweredError(Exception):
    """There is no answer this time: one line says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A run, and who gave it."""

    run: Run
    way: Way
    identity: Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked."""

    prompt: str
    ways: Sequence[Way] = tuple(Way)
    model: str | None = None
    """The name to ask for; None is the preferred one where it is served, else the first."""
    preferred: str | None = None
    engine: str | None = None
    """Its kind, where it is known."""


async def ask(
    engine: Engine,
    question: Question,
    *,
    timeout_s: float = TIMEOUT_S,
    answered: Callable[[Answer], None] = lambda _answer: None,
) -> Asked:
    """One run of the canary.

    Args:
        engine: Who is asked.
        question: The prompt and the ways to try.
        timeout_s: For each request.
        answered: Is told every completion.

    Raises:
        NoLogprobsError: The engine can't be asked this, in no way.
        UnansweredError: There is no answer this time.
    """
    model = question.model or _chosen(await engine.models(), question.preferred)
    reasons = []
    for way in question.ways:
        asked = request_body(question.prompt, way, model)
        answer = await engine.ask(way.path, asked, timeout_s, CANARY_HEADERS)
        if is_completion(answer):
            answered(answer)
            try:
                run = read_run(answer.body, way)
            except NoLogprobsError as error:
                reasons.append(f"{way}: {error}")
                continue
            version = await engine.version() or _fingerprint(answer)
            told = Identity(model=model, engine=question.engine, version=version)
            return Asked(run=run, way=way, identity=told)
        if answer.status in {401, 403}:
            raise NoLogprobsError(f"{way.path} answers {answer.status}: an API key is needed")
        if not (refused(answer.status) or is_missing(answer.status)):
            raise UnansweredError(said(answer))
        reasons.append(f"{way}: {said(answer)}")
    raise NoLogprobsError("; ".join(reasons))


def _chosen(models: Any, preferred: str | None) -> str | None:
    if preferred in served_models.names(models):
        return preferred
    return served_models.first_model(models)


def _fingerprint(answer: Answer) -> str | None:
    """What some engines give in place of a version (llama.cpp: b4501-667d7284)."""
    told = answer.body.get("system_fingerprint")
    return told[:256] if isinstance(told, str) and told else None
