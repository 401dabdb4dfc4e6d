"""The HTTP side of the engine: its page, its health, and our own requests.

One client for one engine. Nothing leaves the engine's own host and port: redirects elsewhere are
refused and proxies from the environment are not used. The API key is read anew for each request,
because Kubernetes changes the file when the Secret changes, and it is taken out of every text.
"""

import asyncio
import json
import ssl
from collections.abc import Mapping
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

import httpx

from cacheaware_sidecar import fetch
from cacheaware_sidecar.engine_answers import Answer
from cacheaware_sidecar.settings import Settings, SettingsError
from cacheaware_sidecar.small_files import read_token

LARGEST_PAGE: Final = 16 * 1024 * 1024
LARGEST_ANSWER: Final = 1024 * 1024
MODELS_TIMEOUT_S: Final = 5.0
WARMUP_HEADERS: Final = {"x-cacheaware-warmup": "true"}
"""Marks our own requests in the engine's or a proxy's log."""
CANARY_HEADERS: Final = {"x-cacheaware-canary": "true"}
KEEP_ALIVE_S: Final = 4.0
"""Below the 5 s after which uvicorn closes an idle connection."""


class Health(Enum):
    """What the engine says about itself."""

    WELL = auto()
    UNWELL = auto()
    NO_ROUTE = auto()
    """There is no such route: a good metrics page has to do."""
    REFUSED = auto()
    SILENT = auto()


WORST_FIRST: Final = (
    Health.UNWELL,
    Health.REFUSED,
    Health.SILENT,
    Health.NO_ROUTE,
    Health.WELL,
)


class SomeMissingError(fetch.FetchError):
    """Some engines of the pod give no page, others do."""

    def __init__(self, missing: list[fetch.FetchError], engines: int) -> None:
        super().__init__(
            missing[0].kind, f"{len(missing)} of {engines} engines give no page: {missing[0]}"
        )
        self.refused = all(map(is_refusal, missing))
        """Whether nobody listens on the ports of those."""


class EngineClient:
    """Asks the engines of one pod. Close it when done."""

    def __init__(
        self, settings: Settings, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._settings = settings
        self._key_file = Path(settings.api_key_file) if settings.api_key_file else None
        self._client = httpx.AsyncClient(
            base_url=settings.engine_url,
            verify=_trust(settings),
            trust_env=False,
            transport=transport,
            limits=httpx.Limits(max_connections=8, keepalive_expiry=KEEP_ALIVE_S),
            headers={"user-agent": "cacheaware-sidecar", "accept-encoding": "identity"},
        )

    async def close(self) -> None:
        """Closes its connections."""
        await self._client.aclose()

    async def pages(self) -> list[bytes]:
        """The metrics pages of all engines of the pod; without one of them there is none.

        Raises:
            FetchError: one is missing; its kind says why.
        """
        urls = self._settings.engine_urls
        found = await asyncio.gather(*map(self._page, urls), return_exceptions=True)
        pages = [each for each in found if isinstance(each, bytes)]
        missing = [each for each in found if isinstance(each, fetch.FetchError)]
        for fault in found:
            if isinstance(fault, BaseException) and not isinstance(fault, fetch.FetchError):
                raise fault
        if missing and pages:
            raise SomeMissingError(missing, len(urls))
        if missing:
            raise min(missing, key=_life)
        return pages

    async def _page(self, url: str) -> bytes:
        return await fetch.fetch_page(
            self._client,
            url + self._settings.metrics_path,
            timeout_s=self._settings.scrape_timeout_seconds,
            max_bytes=LARGEST_PAGE,
            headers=self._headers(),
        )

    async def health(self, timeout_s: float) -> Health:
        """What GET /health says, and where there is none GET /v1/models; of several the worst.

        401 and 403 come from a server that is up and keeps the route for itself.
        """
        urls = self._settings.engine_urls
        return min(
            await asyncio.gather(*(self._health(url, timeout_s) for url in urls)),
            key=WORST_FIRST.index,
        )

    async def _health(self, base: str, timeout_s: float) -> Health:
        health = _health(await self._get(base + "/health", timeout_s))
        if health is Health.NO_ROUTE:
            models = _health(await self._get(base + self._api("/v1/models"), timeout_s))
            return Health.WELL if models is Health.WELL else Health.NO_ROUTE
        return health

    async def models(self) -> Any:
        """The JSON of /v1/models, or None."""
        answer = await self._get(self._api("/v1/models"), MODELS_TIMEOUT_S)
        return answer.body if answer.status == 200 else None

    async def version(self) -> str | None:
        """The engine's version by its own /version, where it has one."""
        answer = await self._get("/version", MODELS_TIMEOUT_S)
        told = answer.body.get("version") if isinstance(answer.body, dict) else None
        return told if answer.status == 200 and isinstance(told, str) and told else None

    async def ask(
        self,
        path: str,
        body: dict[str, Any],
        timeout_s: float,
        headers: Mapping[str, str] = WARMUP_HEADERS,
    ) -> Answer:
        """Posts a request of our own: of the warm-up, unless the headers say another thing."""
        path = self._api(path)
        return await self._request("POST", path, timeout_s, payload=body, headers=headers)

    async def control(
        self, base: str, method: str, path: str, timeout_s: float, payload: Any = None
    ) -> Answer:
        """Calls a route of the engine that listens there."""
        return await self._request(method, base + path, timeout_s, payload=payload)

    def _api(self, path: str) -> str:
        return (self._settings.engine_base_path or "") + path

    async def _get(self, path: str, timeout_s: float) -> Answer:
        return await self._request("GET", path, timeout_s)

    async def _request(
        self, method: str, path: str, timeout_s: float, *, payload: Any = None, headers: Any = None
    ) -> Answer:
        headers = {**self._headers(), **(headers or {})}
        content = None
        if payload is not None:  # in ASCII: a name that an engine tells may hold half a surrogate
            content = json.dumps(payload)
            headers["content-type"] = "application/json"
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._client.stream(
                    method, path, content=content, headers=headers, timeout=timeout_s
                ) as response,
            ):
                return Answer(response.status_code, self._clean(await _small_json(response)))
        except (TimeoutError, httpx.TimeoutException):
            return Answer(None, error=f"no answer within {timeout_s:.3g} s")
        except httpx.ConnectError as error:
            return Answer(None, error="refused" if is_refusal(error) else "no connection", cut=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Answer(None, error=f"broken answer ({type(error).__name__})", cut=True)

    def _headers(self) -> dict[str, str]:
        key = self._key()
        return {"authorization": f"Bearer {key}"} if key else {}

    def _key(self) -> str:
        return read_token(self._key_file) or ""

    def _clean(self, body: Any) -> Any:
        """The answer without the key, which some servers repeat in their messages."""
        key = self._key()
        if not key or not isinstance(body, dict):
            return body
        return json.loads(json.dumps(body).replace(json.dumps(key)[1:-1], "***"))


def is_refusal(error: BaseException) -> bool:
    """Whether the port is closed, however deep the libraries have wrapped that."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ConnectionRefusedError):
            return True
        if isinstance(seen, BaseExceptionGroup):
            return any(map(is_refusal, seen.exceptions))
        seen = seen.__cause__ or seen.__context__
    return False


def _life(error: fetch.FetchError) -> int:
    """How little of a sign of life there is in it; one sign is enough for the whole pod."""
    if error.kind is fetch.FetchFailure.TIMED_OUT:
        return 1
    return 2 if is_refusal(error) else 0


def _health(answer: Answer) -> Health:
    match answer.status:
        case None:
            return Health.REFUSED if answer.error == "refused" else Health.SILENT
        case 404 | 405 | 501:
            return Health.NO_ROUTE
        case 401 | 403:
            return Health.WELL
        case status if 300 <= status < 400:
            return Health.NO_ROUTE
        case status if status >= 500:
            return Health.UNWELL
        case status:
            return Health.WELL if status < 300 else Health.SILENT


async def _small_json(response: httpx.Response) -> Any:
    data = b""
    async for part in response.aiter_raw():
        data += part
        if len(data) > LARGEST_ANSWER:
            return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _trust(settings: Settings) -> ssl.SSLContext | bool:
    """Plain HTTP needs no authorities: loading them costs memory."""
    if settings.ca_file:
        try:
            return ssl.create_default_context(cafile=settings.ca_file)
        except OSError as error:
            raise SettingsError(
                f"CACHEAWARE_CA_FILE: {settings.ca_file!r} can't be used"
                f" ({error.strerror or error}); allowed: a PEM file of certificates"
            ) from None
    if settings.engine_url.startswith("https:"):
        return True
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
