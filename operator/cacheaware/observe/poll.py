"""Fetching from many pods at once: a hung, slow or hostile pod costs a slot for a while."""

import asyncio
import time
from collections.abc import Callable

import aiohttp
from msgspec import Struct

from cacheaware.decide.fleet import Unknown
from cacheaware.observe.plain_http import Odd, PlainHttp, TooLongError
from cacheaware_sidecar.redirects import RedirectError, follow

PER_TARGET = 64
"""Requests at once to one target's pods, so that one workload can't take every slot."""
IDLE_CONNECTION_SECONDS = 75.0
MAX_REDIRECTS = 3
CHUNK = 64 * 1024


class Answer(Struct, frozen=True):
    """What came back; `content` is None where `unknown` says why."""

    at: float
    """The operator's monotonic clock when the answer was whole."""
    content: bytes | None = None
    unknown: Unknown | None = None
    detail: str = ""


class Refused(Exception):  # noqa: N818 - carries an Unknown; it is not an error of the program
    """The pod answered, but not with what was asked for."""

    def __init__(self, unknown: Unknown, detail: str) -> None:
        super().__init__(detail)
        self.unknown = unknown


class Poller:
    """One session for all pods; plain pages of pods go a shorter way, most of them do.

    Args:
        concurrency: requests at once over all targets.
        deadline_s: the time a pod has for its whole answer, redirects included.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        deadline_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slots = asyncio.Semaphore(concurrency)
        self._deadline_s = deadline_s
        self._clock = clock
        self._plain = PlainHttp(clock)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        self._plain.close()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def fetch(self, url: str, most: int, bearer: str | None = None) -> Answer:
        """The body of a page, or why there is none; never raises.

        Args:
            url: of the page.
            most: bytes that it may have.
            bearer: key to show.
        """
        async with self._slots:
            until = asyncio.get_running_loop().time() + self._deadline_s
            try:
                return Answer(self._clock(), await self._content(url, most, bearer, until))
            except Refused as error:
                return self._failed(error.unknown, str(error))
            except TimeoutError:
                return self._failed(Unknown.TIMED_OUT, f"no answer in {self._deadline_s:g} s")
            except aiohttp.ClientConnectorError as error:
                return self._failed(Unknown.REFUSED, error.strerror or str(error))
            except (aiohttp.ClientError, OSError, ValueError) as error:
                return self._failed(Unknown.ERROR, str(error) or type(error).__name__)

    def _failed(self, unknown: Unknown, detail: str) -> Answer:
        return Answer(self._clock(), unknown=unknown, detail=detail)

    async def _content(self, url: str, most: int, bearer: str | None, until: float) -> bytes:
        if bearer is None:
            try:
                reply = await self._plain.get(url, most, until)
            except Odd:
                pass
            except TooLongError:
                raise too_large(most) from None
            except TimeoutError:
                raise
            except OSError as error:
                raise Refused(Unknown.REFUSED, error.strerror or str(error)) from error
            else:
                check(reply.status)
                return reply.body
        async with asyncio.timeout_at(until):
            return await self._follow(url, most, bearer)

    async def _follow(self, url: str, most: int, bearer: str | None) -> bytes:
        for _ in range(MAX_REDIRECTS + 1):
            async with self._get(url, bearer) as response:
                if 300 <= response.status < 400:
                    url = redirected(url, response)
                    continue
                return await accepted(response, most)
        raise Refused(Unknown.ERROR, f"more than {MAX_REDIRECTS} redirects")

    def _get(self, url: str, bearer: str | None) -> "aiohttp.client._RequestContextManager":
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=0, limit_per_host=2, keepalive_timeout=IDLE_CONNECTION_SECONDS
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept-Encoding": "identity"},
                timeout=aiohttp.ClientTimeout(total=None),  # `fetch` has the one deadline
            )
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else None
        return self._session.get(url, headers=headers, allow_redirects=False)


def redirected(url: str, response: aiohttp.ClientResponse) -> str:
    """Where a redirect leads.

    Raises:
        Refused: it leaves the pod's address and port.
    """
    try:
        return follow(url, response.headers.get("Location", ""))
    except RedirectError as error:
        raise Refused(Unknown.ERROR, str(error)) from error


async def accepted(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """The body of a good answer, read no further than allowed.

    Raises:
        Refused: the status is not 200, or the body is too large.
    """
    check(response.status)
    content = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK):
        content += chunk
        if len(content) > max_bytes:
            response.close()
            raise too_large(max_bytes)
    return bytes(content)


def check(status: int) -> None:
    """Take only 200.

    Raises:
        Refused: the status is another.
    """
    if status in {401, 403}:
        raise Refused(Unknown.UNAUTHORIZED, f"answered {status}: a key is needed")
    if status != 200:
        raise Refused(Unknown.ERROR, f"answered {status}")


def too_large(max_bytes: int) -> Refused:
    """That a body is larger than allowed."""
    return Refused(Unknown.INVALID, f"more than {max_bytes:,} bytes")
