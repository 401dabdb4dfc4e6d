"""The public keys that the cluster signs ServiceAccount tokens with, from its own API server.

They are always fetched from the API server of this cluster, with the pod's own token and the
cluster's authority: no address in a token, in a key or in a redirect is followed. Keys that were
fetched once are kept while the API server is away.
"""

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from cacheaware_sidecar.refusal import RefusedError
from cacheaware_sidecar.small_files import read_token
from cacheaware_sidecar.tokens import Jwk

PATH: Final = "/openid/v1/jwks"
FETCH_S: Final = 2.0
"""Less than a call may take: where the API server hangs, the last keys are used in time."""
AGAIN_S: Final = 60.0
"""Between two fetches, so that tokens of made-up keys don't make a pod ask all the time."""
FIRST_AGAIN_S: Final = 5.0
"""The same as long as there are no keys at all."""
OLD_S: Final = 600.0
"""Keys are fetched anew after this: one that the cluster has withdrawn is good no longer."""
LARGEST: Final = 256 * 1024
MOST_KEYS: Final = 64


class ClusterKeys:
    """Fetches the keys when they are needed, and keeps them."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._url = api_url(environ)
        self._clock = clock
        self._keys: tuple[Jwk, ...] = ()
        self._fetched_at = self._tried_at = -float("inf")
        self._problem = ""
        self._lock = asyncio.Lock()

    async def for_key(self, key_id: str) -> tuple[Jwk, ...]:
        """All keys, fetched anew where this one is not among them or they are old.

        Raises:
            RefusedError: 503, no keys could be fetched yet.
        """
        async with self._lock:
            if self._is_due(key_id):
                self._tried_at = self._clock()
                await self._fetch()
        if not self._keys:
            raise RefusedError(503, f"the cluster's keys are not available: {self._problem}")
        return self._keys

    def _is_due(self, key_id: str) -> bool:
        now = self._clock()
        if now - self._tried_at < (AGAIN_S if self._keys else FIRST_AGAIN_S):
            return False
        known = any(key.get("kid") == key_id for key in self._keys)
        return not known or now - self._fetched_at >= OLD_S

    async def _fetch(self) -> None:
        try:
            keys = parse(await self._page())
        except (TimeoutError, httpx.TimeoutException):
            self._problem = f"the API server gave no whole answer in {FETCH_S:g} s"
        except _NoKeysError as error:
            self._problem = str(error)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ExceptionGroup) as error:
            self._problem = f"the API server can't be asked ({str(error) or type(error).__name__})"
        else:
            self._keys, self._fetched_at, self._problem = keys, self._clock(), ""

    async def _page(self) -> bytes:
        token = read_token(self._folder / "token")
        if self._url is None or token is None:
            what = "KUBERNETES_SERVICE_HOST" if token else f"{self._folder}/token"
            raise _NoKeysError(f"{what} is missing")
        headers = {"authorization": f"Bearer {token}", "accept-encoding": "identity"}
        async with (
            asyncio.timeout(FETCH_S),
            httpx.AsyncClient(verify=self._trust(), trust_env=False, timeout=FETCH_S) as client,
            client.stream("GET", self._url, headers=headers) as response,
        ):
            if response.status_code != 200:
                raise _NoKeysError(f"the API server answered {response.status_code} for {PATH}")
            return await _body(response)

    def _trust(self) -> ssl.SSLContext:
        """The cluster's own authority and no other."""
        try:
            return ssl.create_default_context(cafile=str(self._folder / "ca.crt"))
        except OSError as error:
            reason = error.strerror or "no certificate in it"
            raise _NoKeysError(f"{self._folder}/ca.crt can't be used ({reason})") from None


class _NoKeysError(Exception):
    """Why there are none: one line."""


def api_url(environ: Mapping[str, str]) -> str | None:
    """Where the keys are, by the variables of every container; None outside of a cluster."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "") or "443"
    if not host:
        return None
    return f"https://[{host}]:{port}{PATH}" if ":" in host else f"https://{host}:{port}{PATH}"


async def _body(response: httpx.Response) -> bytes:
    body = b""
    async for part in response.aiter_raw():
        body += part
        if len(body) > LARGEST:
            raise _NoKeysError(f"the API server's answer is larger than {LARGEST:,} bytes")
    return body


def parse(page: bytes) -> tuple[Jwk, ...]:
    """The keys of a key set (RFC 7517, 5), those with an id.

    Raises:
        _NoKeysError: it is none, or holds none.
    """
    try:
        told: Any = json.loads(page)
    except (ValueError, RecursionError):
        told = None
    listed = told.get("keys") if isinstance(told, dict) else None
    if not isinstance(listed, list):
        raise _NoKeysError("the API server's answer is no set of keys")
    keys = [key for key in listed if isinstance(key, dict) and isinstance(key.get("kid"), str)]
    if not keys:
        raise _NoKeysError("the API server publishes no keys")
    return tuple(keys[:MOST_KEYS])
