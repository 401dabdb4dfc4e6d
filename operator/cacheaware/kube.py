"""The one module that talks to the Kubernetes API: dict in, dict out, one exception type.

The official client's `ApiClient.call_api` and its `config` do the transport and the credentials
(measured: kopf loads that package anyway, so it costs nothing beside it); its typed models are
not used. Every call has a timeout, an explicit content type and the project's field manager.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import kube_config, load_incluster_config, load_kube_config

from cacheaware import names
from cacheaware.backoff import Gate

BACKING_OFF = "BackingOff"
LEASE_NOT_HELD = "LeaseNotHeld"
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
ANYTHING = "*/*"
TOO_LARGE = "TooLarge"
TOKEN_SECONDS = 60.0
"""The service account's token is read again this often, and at once on a 401."""
CALLS_AT_ONCE = 32
UNQUEUED = "/apis/coordination.k8s.io/"
"""Leases wait for no slot: behind the first round of a thousand scalers one would be lost."""
CALL_SECONDS = 10.0
WRITE_SECONDS = 4.0
"""A write that began while the Lease was held has ended before another may take the Lease."""
LIST_SECONDS = 30.0
PAGE = 250
"""Objects per page of a list: a page is parsed at one go, so it must stay small."""
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, asyncio.TimeoutError, ValueError)

T = TypeVar("T")
Load = Callable[[], Awaitable[Configuration]]


class KubeError(Exception):
    """A call that did not succeed.

    `status` is the HTTP status, 0 where the server was not reached; `reason` the API's word for it
    (NotFound, Conflict, Expired, ...), or Unreachable, or BackingOff for a call that was not made
    because the same one failed a moment ago, or LeaseNotHeld for a write that is another's to make.
    """

    def __init__(
        self, status: int, reason: str, message: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if message else f"{status} {reason}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Ask:
    """A request before it is sent."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Any] | None = None
    seconds: float | None = None
    """For the whole answer; None for a stream."""
    idle_seconds: float | None = None
    """A stream may be silent for so long."""
    accept: str = JSON
    fenced: bool = False
    """A write that only the holder of the Lease may send."""

    @property
    def limit(self) -> aiohttp.ClientTimeout:
        """How long to wait for what."""
        return aiohttp.ClientTimeout(
            total=self.seconds, sock_connect=CALL_SECONDS, sock_read=self.idle_seconds
        )


def in_cluster() -> bool:
    """Whether a service account's token is mounted."""
    return SERVICE_ACCOUNT.exists()


async def load_credentials(context: str | None = None) -> Configuration:
    """The service account inside a cluster, else the kubeconfig.

    Raises:
        KubeError: neither is there, or it can't be used.
    """
    configuration = Configuration()
    inside = context is None and in_cluster()
    if not inside and (missing := missing_kubeconfig()):
        raise KubeError(0, "NoCredentials", missing)
    try:
        if inside:
            load_incluster_config(client_configuration=configuration)
        else:
            await load_kube_config(client_configuration=configuration, context=context)
    except Exception as error:  # a person's file in a library's hands: ends in any type of error
        message = f"the credentials can't be used: {describe(error)}"
        raise KubeError(0, "NoCredentials", message) from error
    return configuration


def missing_kubeconfig() -> str | None:
    """That there is no kubeconfig, in a line; None where there is one."""
    places = kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    if any(Path(place).expanduser().exists() for place in places.split(os.pathsep) if place):
        return None
    empty = "''"
    return f"no kubeconfig at {places or empty}; set KUBECONFIG, or run inside a cluster"


class Kube:
    """Calls to one API server; each raises KubeError.

    Args:
        load: gives the credentials.
        gate: tells which calls failed a moment ago and must wait.
        clock: monotonic seconds.
        on_error: told of each failure, by method and status.
    """

    def __init__(
        self,
        load: Load = load_credentials,
        *,
        gate: Gate | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_error: Callable[[str, int], None] = lambda _method, _status: None,
    ) -> None:
        self._load = load
        self._clock = clock
        self._gate = gate or Gate()
        self._on_error = on_error
        self._slots = asyncio.Semaphore(CALLS_AT_ONCE)
        self._starting = asyncio.Lock()
        self._client: ApiClient | None = None
        self._read_at = 0.0
        self.may_write: Callable[[], bool] = lambda: True
        """Asked at the last moment before each write but the Lease's own."""

    async def credentials(self) -> Configuration:
        """Fresh credentials, for kopf's login."""
        return await self._load()

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def get(
        self,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        seconds: float = CALL_SECONDS,
    ) -> dict[str, Any]:
        """The object at a path."""
        return await self._call(Ask("GET", path, query=query, seconds=seconds))

    async def content(self, path: str, most: int, *, seconds: float = CALL_SECONDS) -> bytes:
        """What a pod answers through the API server's proxy, whatever it is.

        A pod that fails is asked again like any other: it's not the API that is to be spared.

        Raises:
            KubeError: it did not answer, refused, or sent more than `most` bytes (TooLarge).
        """
        ask = Ask("GET", path, seconds=seconds, accept=ANYTHING)
        async with self._slots:
            response = await self._with_fresh_token(lambda: self._send(ask))
            try:
                async with response:
                    return await at_most(response.content, most)
            except TRANSPORT_ERRORS as error:
                raise KubeError(0, "Unreachable", describe(error)) from error

    async def create(
        self, path: str, body: Mapping[str, Any], *, fenced: bool = True
    ) -> dict[str, Any]:
        """Create an object in a collection."""
        return await self._call(Ask("POST", path, body, seconds=WRITE_SECONDS, fenced=fenced))

    async def patch(
        self, path: str, body: Mapping[str, Any], *, fenced: bool = True
    ) -> dict[str, Any]:
        """Merge-patch an object; a resourceVersion in the body makes it conditional (409)."""
        return await self._call(Ask("PATCH", path, body, seconds=WRITE_SECONDS, fenced=fenced))

    async def pages(self, path: str, query: Mapping[str, Any] | None = None) -> AsyncIterator[Any]:
        """The pages of a list, each a List object as the API gives it."""
        token = ""
        while True:
            asked = {**(query or {}), "limit": PAGE, **({"continue": token} if token else {})}
            page = await self.get(path, asked, seconds=LIST_SECONDS)
            yield page
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    async def _call(self, ask: Ask) -> dict[str, Any]:
        """One request with a JSON answer; a 401 reads the token again and asks once more."""
        key = f"{ask.method} {ask.path}"
        self._check_gate(key)
        slot = nullcontext() if ask.path.startswith(UNQUEUED) else self._slots
        try:
            async with slot:
                result = await self._with_fresh_token(lambda: self._answer(ask))
        except KubeError as error:
            self._on_error(ask.method, error.status)
            self._gate.failed(key, error.status, error.retry_after, self._clock())
            raise
        self._gate.passed(key)
        return result

    def _check_gate(self, key: str) -> None:
        if (closed := self._gate.closed(key, self._clock())) is not None:
            message = (
                f"not asked again for {closed.seconds:.0f} s after {closed.status or 'no'} answer"
            )
            raise KubeError(closed.status, BACKING_OFF, message, closed.seconds)

    async def watch(
        self, path: str, query: Mapping[str, Any], *, idle_seconds: float
    ) -> AsyncIterator[dict[str, Any]]:
        """The events of a watch, until the server ends it.

        Raises:
            KubeError: refused, broken, an ERROR event (410: list again), or nothing at all came
                within `idle_seconds` although bookmarks were asked for (status 0, Silent).
        """
        asked = {**query, "watch": "true", "allowWatchBookmarks": "true"}
        ask = Ask("GET", path, query=asked, idle_seconds=idle_seconds)
        try:
            response = await self._with_fresh_token(lambda: self._send(ask))
            async with response:
                async for line in lines(response.content):
                    yield event_or_error(json.loads(line))
        except KubeError as error:
            self._on_error("WATCH", error.status)
            raise
        except TRANSPORT_ERRORS as error:
            self._on_error("WATCH", 0)
            silent = isinstance(error, asyncio.TimeoutError)
            raise KubeError(0, "Silent" if silent else "Unreachable", describe(error)) from error

    async def _answer(self, ask: Ask) -> dict[str, Any]:
        response = await self._send(ask)
        try:
            async with response:
                return dict(json.loads(await response.read()))
        except TRANSPORT_ERRORS as error:
            raise KubeError(0, "Unreachable", describe(error)) from error

    async def _with_fresh_token(self, send: Callable[[], Awaitable[T]]) -> T:
        try:
            return await send()
        except KubeError as error:
            if error.status != 401:
                raise
        await self._read_token()
        return await send()

    async def _send(self, ask: Ask) -> aiohttp.ClientResponse:
        client = await self._ready_client()
        url = address(client.configuration.host, ask)
        headers = {
            "Accept": ask.accept,
            "Content-Type": MERGE_PATCH if ask.method == "PATCH" else JSON,
            "User-Agent": names.FIELD_MANAGER,
            **await authorization(client.configuration),
        }
        if ask.fenced and not self.may_write():
            raise KubeError(409, LEASE_NOT_HELD, "another operator may be writing")
        try:
            answer = await client.call_api(
                ask.method,
                url,
                header_params=headers,
                body=ask.body,
                _request_timeout=ask.limit,
            )
            response: aiohttp.ClientResponse = answer.response
            if response.status >= 400:
                raise refusal(response, await response.read())
        except TRANSPORT_ERRORS as error:
            raise KubeError(0, "Unreachable", describe(error)) from error
        return response

    async def _ready_client(self) -> ApiClient:
        async with self._starting:
            if self._client is None:
                configuration = await self._load()
                configuration.connection_pool_maxsize = 0
                configuration.client_session_kwargs = {"trust_env": False}
                self._client, self._read_at = client_for(configuration), self._clock()
        if self._clock() - self._read_at > TOKEN_SECONDS:
            await self._read_token()
        return self._client

    async def _read_token(self) -> None:
        if self._client is not None:
            self._client.configuration.api_key = (await self._load()).api_key
            self._read_at = self._clock()


def client_for(configuration: Configuration) -> ApiClient:
    """A client with these credentials.

    Raises:
        KubeError: a certificate or key among them can't be used.
    """
    try:
        return ApiClient(configuration)
    except (OSError, ValueError) as error:
        message = f"the certificates can't be used: {describe(error)}"
        raise KubeError(0, "NoCredentials", message) from error


def address(host: str, ask: Ask) -> str:
    """The URL of a call; every write names its field manager."""
    wanted = dict(ask.query or {})
    if ask.method in {"POST", "PUT", "PATCH"}:
        wanted["fieldManager"] = names.FIELD_MANAGER
    return f"{host.rstrip('/')}{ask.path}" + (f"?{urlencode(wanted)}" if wanted else "")


async def authorization(configuration: Configuration) -> dict[str, str]:
    """The Authorization header of the credentials; empty where a client certificate speaks."""
    header = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    if header:
        return {"Authorization": " ".join(header.split())}
    if configuration.username and configuration.password:
        basic = aiohttp.encode_basic_auth(configuration.username, configuration.password)
        return {"Authorization": basic}
    return {}


def refusal(response: aiohttp.ClientResponse, content: bytes) -> KubeError:
    """The error that an answer of 400 and above means."""
    try:
        status = json.loads(content)
    except ValueError:
        status = {}
    status = status if isinstance(status, dict) else {}
    after = response.headers.get("Retry-After", "")
    return KubeError(
        response.status,
        status.get("reason") or response.reason or "Error",
        status.get("message") or "",
        float(after) if after.isdigit() else None,
    )


def event_or_error(event: Any) -> dict[str, Any]:
    """A watch event; an ERROR event is raised as what its Status says.

    Raises:
        KubeError: the event is an error.
    """
    if event["type"] == "ERROR":
        status = event.get("object") or {}
        raise KubeError(
            int(status.get("code") or 0),
            status.get("reason") or "Error",
            status.get("message") or "",
        )
    return dict(event)


async def lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a stream, however long: an event is larger than any read limit."""
    rest = b""
    async for chunk in content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line


async def at_most(content: aiohttp.StreamReader, most: int) -> bytes:
    """All of a body.

    Raises:
        KubeError: it is larger than `most` bytes.
    """
    found = bytearray()
    async for chunk in content.iter_any():
        found += chunk
        if len(found) > most:
            raise KubeError(0, TOO_LARGE, f"more than {most:,} bytes")
    return bytes(found)


def describe(error: BaseException) -> str:
    """An error in a word or two, never empty."""
    return str(error) or type(error).__name__
