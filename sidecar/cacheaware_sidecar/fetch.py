"""Fetches one metrics page: every way in which that can end has its name.

The one place where httpx is used to scrape; the client is the caller's.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

import httpx

from cacheaware_sidecar.redirects import MAX_REDIRECTS, RedirectError, follow

LARGEST_PAGE: Final = 8 * 1024 * 1024
ACCEPT: Final = {"Accept": "text/plain;version=0.0.4;q=1,*/*;q=0.1", "Accept-Encoding": "identity"}
_ANY_ZLIB_HEADER: Final = zlib.MAX_WBITS | 32


class FetchFailure(StrEnum):
    """Why there is no page."""

    TIMED_OUT = "timed out"
    REFUSED = "refused"
    UNAUTHORIZED = "unauthorized"
    REDIRECTED_AWAY = "redirected away"
    TOO_LARGE = "too large"
    STATUS = "status"
    INVALID = "not a metrics page"
    ERROR = "error"


class FetchError(Exception):
    """One line without secrets; `kind` says which case it is."""

    def __init__(self, kind: FetchFailure, message: str) -> None:
        super().__init__(message)
        self.kind = kind


async def fetch_page(
    client: httpx.AsyncClient,
    url: str,
    *,
    timeout_s: float = 5.0,
    max_bytes: int = LARGEST_PAGE,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Fetch a metrics page.

    Args:
        client: Made by the caller, who also closes it.
        url: Where the page is.
        timeout_s: For the whole: connecting, redirects and the last byte.
        max_bytes: Of the body after decoding.
        headers: More request headers; sent to this server only.

    Raises:
        FetchError: There is no page; the kind says why.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _fetch(client, url, max_bytes, {**ACCEPT, **(headers or {})})
    except (TimeoutError, httpx.TimeoutException):
        raise FetchError(
            FetchFailure.TIMED_OUT, f"{shown(url)}: no whole answer in {timeout_s:g} s"
        ) from None
    except httpx.ConnectError as error:
        reason = str(error) or "connection refused"
        raise FetchError(FetchFailure.REFUSED, f"{shown(url)}: {reason}") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ExceptionGroup) as error:
        raise FetchError(
            FetchFailure.ERROR, f"{shown(url)}: {type(error).__name__}, no page"
        ) from None


def shown(url: str) -> str:
    """A URL for messages: without user, password and query, which may hold a signature."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


async def _fetch(
    client: httpx.AsyncClient, url: str, max_bytes: int, headers: Mapping[str, str]
) -> bytes:
    """Ask, and follow redirects that stay on the server."""
    for _ in range(MAX_REDIRECTS + 1):
        async with client.stream("GET", url, headers=headers, follow_redirects=False) as response:
            if not response.has_redirect_location:
                _check_status(url, response)
                return _checked(url, response, await _body(url, response, max_bytes))
            url = _next(url, response.headers["location"])
    raise FetchError(
        FetchFailure.STATUS, f"{shown(url)}: redirected more than {MAX_REDIRECTS} times"
    )


def _next(url: str, location: str) -> str:
    try:
        return follow(url, location)
    except RedirectError as error:
        raise FetchError(FetchFailure.REDIRECTED_AWAY, f"{shown(url)}: {error}") from None


def _check_status(url: str, response: httpx.Response) -> None:
    status = response.status_code
    if status in {401, 403}:
        raise FetchError(
            FetchFailure.UNAUTHORIZED, f"{shown(url)}: answered {status}, a key is needed"
        )
    if status != 200:
        raise FetchError(FetchFailure.STATUS, f"{shown(url)}: answered {status}")


async def _body(url: str, response: httpx.Response, max_bytes: int) -> bytes:
    """The decoded body, no more of it in memory than allowed."""
    body = bytearray()
    try:
        async for piece in _decoded(response, max_bytes + 1):
            body += piece
            if len(body) > max_bytes:
                raise FetchError(
                    FetchFailure.TOO_LARGE, f"{shown(url)}: more than {max_bytes:,} bytes"
                )
    except zlib.error:
        raise FetchError(FetchFailure.INVALID, f"{shown(url)}: broken compression") from None
    return bytes(body)


async def _decoded(response: httpx.Response, most: int) -> AsyncIterator[bytes]:
    """Pieces of the body; httpx would decode a bomb as far as it goes."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in {"", "identity"}:
        async for piece in response.aiter_raw():
            yield piece
    elif encoding in {"gzip", "x-gzip", "deflate"}:
        decoder = zlib.decompressobj(_ANY_ZLIB_HEADER)
        async for piece in response.aiter_raw():
            yield decoder.decompress(piece, most)
        if not decoder.eof:
            raise zlib.error("cut off")
    else:
        raise FetchError(FetchFailure.INVALID, f"content-encoding {encoding} was not asked for")


def _checked(url: str, response: httpx.Response, page: bytes) -> bytes:
    """The page if it can be one."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    start = page.lstrip()[:1]
    if not start:
        raise FetchError(FetchFailure.INVALID, f"{shown(url)}: the page is empty")
    if kind in {"application/json", "text/html"} or (start in b"<[{" and not kind):
        found = kind or "JSON or HTML"
        raise FetchError(
            FetchFailure.INVALID, f"{shown(url)}: {found} instead of a Prometheus page"
        )
    framed = {"content-length", "transfer-encoding"} & set(response.headers)
    if not framed and not page.endswith(b"\n"):
        raise FetchError(FetchFailure.INVALID, f"{shown(url)}: the page is cut off")
    return page
