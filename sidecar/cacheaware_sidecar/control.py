"""The control calls: cordon, uncordon and deadline, for the operator alone.

Each checks who calls, then what is asked, then whether the pod is in a state for it; a call that
is refused changes nothing and is logged without its token.
"""

import json
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from cacheaware_sidecar.authorization import Authorization
from cacheaware_sidecar.clip import clipped
from cacheaware_sidecar.http_server import Request, Response
from cacheaware_sidecar.lifecycle import LONGEST_LEASE_S, UsedToken
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.pod import Pod
from cacheaware_sidecar.problems import ProblemLog
from cacheaware_sidecar.refusal import RefusedError

SHORTEST_LEASE_S: Final = 5.0
LONGEST_DEADLINE_S: Final = 1_000_000.0
LARGEST_BODY: Final = 4096
MOST_CALLS: Final = 4
"""At once: they may wait for the API server, and the rest must be answered meanwhile."""
HOLDER: Final = re.compile(r"[!-~]{1,128}")
JSON_TYPE: Final = "application/json"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of the operator: what it asks, with which token."""

    body: dict[str, Any]
    token: UsedToken
    now: float


class Control:
    """Answers control calls for a pod."""

    def __init__(
        self,
        pod: Pod,
        authorization: Authorization,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._pod = pod
        self._authorization = authorization
        self._clock = clock
        self._wall = wall
        self._calls = 0
        self._refusals = ProblemLog()
        self._answers: dict[str, Callable[[_Call], dict[str, Any]]] = {
            "/cordon": self._cordon,
            "/uncordon": self._uncordon,
            "/deadline": self._deadline,
        }

    @property
    def paths(self) -> frozenset[str]:
        """The routes that are answered here."""
        return frozenset(self._answers)

    async def respond(self, request: Request) -> Response:
        """Answers a POST to one of the paths."""
        try:
            told = await self._take(request)
        except RefusedError as error:
            response = self._refused(request, error)
        else:
            response = Response(200, json.dumps(told).encode() + b"\n", JSON_TYPE)
        self._pod.control_calls[request.path.removeprefix("/"), response.status] += 1
        return response

    async def _take(self, request: Request) -> dict[str, Any]:
        if self._calls >= MOST_CALLS:
            raise RefusedError(503, "too many control calls at once")
        self._calls += 1
        try:
            token = await self._authorization.check(request)
        finally:
            self._calls -= 1
        now = self._clock()
        self._pod.pass_time(now)
        if any(token.id == each.id for each in self._pod.state.spent):
            raise RefusedError(401, "the token belongs to a cordon that has ended; use a new one")
        return self._answers[request.path](_Call(parse(request.body), token, now))

    def _refused(self, request: Request, error: RefusedError) -> Response:
        """Says it in the log, once where the same is asked again and again."""
        line = f"POST {request.path} was refused with {error.status}: {error}"
        for news in self._refusals.update([line], self._clock()):
            log.warning("%s", news)
        headers = (("www-authenticate", "Bearer"),) if error.status == 401 else ()
        return Response.text(error.status, str(error), *headers)

    def _cordon(self, call: _Call) -> dict[str, Any]:
        by, pod = holder(call.body), self._pod
        seconds = number(call.body, "seconds", SHORTEST_LEASE_S, LONGEST_LEASE_S)
        self._check_holder(by)
        if pod.phase not in {Phase.SERVING, Phase.CORDONED}:
            raise RefusedError(409, f"a pod that is {pod.phase} can't be cordoned")
        pod.cordon(by, seconds, call.token, wall=self._wall(), now=call.now)
        return {"phase": pod.phase.value, "lease_s": seconds}

    def _uncordon(self, call: _Call) -> dict[str, Any]:
        self._check_holder(holder(call.body))
        self._pod.uncordon(call.token, call.now)
        return {"phase": self._pod.phase.value}

    def _deadline(self, call: _Call) -> dict[str, Any]:
        seconds = number(call.body, "seconds", 0.0, LONGEST_DEADLINE_S)
        left = self._pod.shorten_drain(seconds, call.now)
        if left is None:
            raise RefusedError(409, f"no final drain is under way: the pod is {self._pod.phase}")
        return {"deadline_s": left}

    def _check_holder(self, by: str) -> None:
        cordon = self._pod.state.cordon
        if cordon and cordon.by != by:
            raise RefusedError(409, f"the cordon is held by {cordon.by}")


def parse(body: bytes) -> dict[str, Any]:
    """The fields of a call; those that are not known are for newer sidecars and ignored.

    Raises:
        RefusedError: the body is too large, or no JSON object of UTF-8.
    """
    if len(body) > LARGEST_BODY:
        raise RefusedError(413, f"the body is too large; allowed: {LARGEST_BODY:,} bytes")
    try:
        fields = json.loads(body.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise RefusedError(400, "the body is no JSON object with each field once")
    return fields


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError
    return fields


def holder(fields: dict[str, Any]) -> str:
    """Who calls.

    Raises:
        RefusedError: it doesn't say.
    """
    by = fields.get("by")
    if not isinstance(by, str) or not HOLDER.fullmatch(by):
        allowed = "the uid of a CacheAwareScaler"
        raise RefusedError(400, f"by is {clipped(ascii(by))}; allowed: {allowed}")
    return by


def number(fields: dict[str, Any], name: str, low: float, high: float) -> float:
    """A number of seconds.

    Raises:
        RefusedError: it is missing, no number, or out of bounds.
    """
    value: Any = fields.get(name)
    wrong = isinstance(value, bool) or not isinstance(value, int | float)
    if wrong or not low <= value <= high:
        raise RefusedError(
            400, f"{name} is {clipped(ascii(value))}; allowed: a number from {low:g} to {high:g}"
        )
    return float(value)
