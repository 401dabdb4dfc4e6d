"""The control calls to sidecars: cordon, uncordon, deadline. Each ends in time and none raises."""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from cacheaware import names
from cacheaware.act.outcome import Outcome
from cacheaware.act.tokens import Tokens
from cacheaware.kube import LEASE_NOT_HELD, KubeError
from cacheaware.pods import PodRecord

CALL_SECONDS = 3.0
"""For the whole call: the sidecar may have to read the cluster's keys first."""
AT_ONCE = 32
LEASE_SECONDS = 60
LONGEST_TEXT = 200
RETRIED = frozenset({401})
"""A token whose cordon has ended is refused: another one is made, once."""


class Control:
    """Calls sidecars.

    Args:
        tokens: prove who calls.
        may_call: asked at the last moment before each call, as before each write to the API.
        count: told of each call's name and outcome.
    """

    def __init__(
        self,
        tokens: Tokens,
        *,
        may_call: Callable[[], bool] = lambda: True,
        count: Callable[[str, str], None] = lambda _call, _outcome: None,
    ) -> None:
        self._tokens = tokens
        self._may_call = may_call
        self._count = count
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._session: aiohttp.ClientSession | None = None

    async def cordon(self, record: PodRecord, by: str) -> Outcome:
        """Take a pod out of the endpoints, or keep it out, for a minute."""
        return await self._call(record, "cordon", {"by": by, "seconds": LEASE_SECONDS})

    async def uncordon(self, record: PodRecord, by: str) -> Outcome:
        """Let a pod come back; its token is spent with the cordon."""
        outcome = await self._call(record, "uncordon", {"by": by})
        self._tokens.forget(record.uid)
        return outcome

    async def deadline(self, record: PodRecord, seconds: float) -> Outcome:
        """Tell a pod in its final drain how long it has left."""
        return await self._call(record, "deadline", {"seconds": max(0.0, seconds)})

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _call(self, record: PodRecord, name: str, body: Mapping[str, Any]) -> Outcome:
        async with self._slots:
            outcome = await self._tried(record, name, body)
        self._count(name, outcome.word)
        return outcome

    async def _tried(self, record: PodRecord, name: str, body: Mapping[str, Any]) -> Outcome:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                status, text = await self._post(record, name, body)
                if status in RETRIED:
                    self._tokens.forget(record.uid)
                    status, text = await self._post(record, name, body)
        except KubeError as error:
            return Outcome(0, f"no token can be made: {error.reason}")
        except TimeoutError:
            return Outcome(0, f"its sidecar did not answer in {CALL_SECONDS:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Outcome(0, f"its sidecar is not reached: {named(error)}")
        if status == 200:
            return Outcome(status)
        return Outcome(status, f"its sidecar answers {status}: {text}")

    async def _post(self, record: PodRecord, name: str, body: Mapping[str, Any]) -> tuple[int, str]:
        token = await self._tokens.of(record.uid)
        url = f"http://{host(record.ip or '')}:{record.sidecar_port or names.SIDECAR_PORT}/{name}"
        headers = {"Authorization": f"Bearer {token}"}
        if not self._may_call():
            raise KubeError(409, LEASE_NOT_HELD, "another operator may be acting")
        async with self._open().post(
            url, json=body, headers=headers, allow_redirects=False
        ) as response:
            content = await response.content.read(4 * LONGEST_TEXT)
            return response.status, line(content)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),  # `_tried` has the one deadline
            )
        return self._session


def host(ip: str) -> str:
    """An address as a URL holds it."""
    return f"[{ip}]" if ":" in ip else ip


def line(content: bytes) -> str:
    """A sidecar's words, fit for a status: one printable line, not too long."""
    text = "".join(c if c.isprintable() else " " for c in content.decode("utf-8", "replace"))
    return " ".join(text.split())[:LONGEST_TEXT]


def named(error: Exception) -> str:
    """A transport's error in a few words, without an address."""
    number = getattr(getattr(error, "os_error", None) or error, "errno", None)
    return os.strerror(number) if number else type(error).__name__
