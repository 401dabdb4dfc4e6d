"""Aborts what is in flight, by routes that the engine has; nothing is guessed, none is forced.

vLLM, in its development mode (VLLM_SERVER_DEV_MODE=1), which `/is_paused` tells: `/abort_requests`,
which pauses nothing, or where it is missing `/pause` (from 0.12 on; `mode` from 0.16 on, before
that the default aborts) and `/resume` at once. A pause aborts in the engine, which then counts what
had only waited as first tokens that came late and as prefills that took as long as the node is up.
SGLang: `POST /abort_request` with `abort_all`. Others have no such route.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol

from cacheaware_sidecar.engine_answers import Answer

TIMEOUT_S: Final = 5.0
RESUME_TRIES: Final = 20
RESUME_PAUSE_S: Final = 0.5
ALL: Final[dict[str, Any]] = {}
"""Names no request, which means all to `/abort_requests`."""
PAUSE: Final = "/pause?mode=abort&clear_cache=false"
MARK: Final = "paused-by-relief"
"""There from before a pause until its resume: a sidecar that dies between leaves it behind."""
NO_ROUTE: Final = frozenset({404, 405, 501})
VLLM: Final = "vllm"
SGLANG: Final = "sglang"

ABORTED: Final = "aborted"
NOTHING: Final = "nothing_in_flight"
WITHOUT: Final = "no_route"
PAUSED: Final = "paused_by_others"
FAILED: Final = "failed"
STUCK: Final = "not_resumed"
UNSUPPORTED: Final = "unsupported_engine"

log = logging.getLogger(__name__)
Sleep = Callable[[float], Awaitable[None]]


class Control(Protocol):
    """Calls a route of one engine."""

    async def __call__(self, method: str, path: str, payload: Any = None) -> Answer:
        """Its answer; one without a status where none came."""


async def abort(engine: str | None, control: Control, folder: Path, sleep: Sleep) -> str:
    """Abort what is in flight; returns what came of it, in one word."""
    if engine == VLLM:
        return await _vllm(control, folder, sleep)
    if engine == SGLANG:
        answer = await control("POST", "/abort_request", {"rid": "", "abort_all": True})
        return _told(answer)
    return UNSUPPORTED


async def _vllm(control: Control, folder: Path, sleep: Sleep) -> str:
    told = await control("GET", "/is_paused")
    if told.status in NO_ROUTE:
        return WITHOUT
    paused = told.body.get("is_paused") if isinstance(told.body, dict) else None
    if told.status != 200 or not isinstance(paused, bool):
        return FAILED
    if paused:
        return PAUSED
    answer = await control("POST", "/abort_requests", ALL)
    if answer.status is None:
        return FAILED
    # A route of the same name that wants to be told which requests has another answer.
    if answer.status == 200 and isinstance(answer.body, dict) and "aborted" in answer.body:
        log.info("relief: the engine says that it aborted %s requests", answer.body["aborted"])
        return ABORTED if answer.body["aborted"] else NOTHING
    return await _vllm_by_pause(control, folder, sleep)


async def _vllm_by_pause(control: Control, folder: Path, sleep: Sleep) -> str:
    mark = folder / MARK
    mark.touch()
    answer = Answer(None)
    try:
        answer = await control("POST", PAUSE)
    finally:
        resumed = await asyncio.shield(resume(control, folder, sleep))
    return _told(answer) if resumed else STUCK


def _told(answer: Answer) -> str:
    if answer.status in NO_ROUTE:
        return WITHOUT
    return ABORTED if answer.status == 200 else FAILED


async def resume(control: Control, folder: Path, sleep: Sleep) -> bool:
    """Let the engine go on, and take the mark away; whatever became of the pause.

    An engine that is not there, or has begun anew, is not paused.
    """
    for _ in range(RESUME_TRIES):
        answer = await control("POST", "/resume")
        if answer.status == 200 or answer.status in NO_ROUTE or answer.error == "refused":
            (folder / MARK).unlink(missing_ok=True)
            return True
        await sleep(RESUME_PAUSE_S)
    return False


def is_marked(folder: Path) -> bool:
    """Whether a sidecar before this one may have left the engine paused."""
    return (folder / MARK).exists()
