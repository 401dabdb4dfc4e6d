"""GET from thousands of pods over kept connections, for a fraction of what a whole client costs.

Only the plain answer is read here: HTTP/1.1, a status that speaks for itself and one
Content-Length, as sidecars and most engines write it. Whatever else comes is `Odd`, and its
connection is closed: then a whole client has to ask, and gives the verdict.
"""

import asyncio
import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import cast

from msgspec import Struct

from cacheaware.observe.deadlines import Deadlines

HEAD_BYTES = 16 * 1024
"""A longer head is odd."""
IDLE_SECONDS = 75.0
"""A connection that was not used for so long is closed."""
SWEEP_SECONDS = 15.0
HEADS = 1_024
"""Heads that are known: a fleet's are few, they differ in the length and the second."""
ADDRESSES = 8_192
"""Requests that are kept ready."""
ADDRESS = re.compile(
    r"http://(?P<authority>(?:(?P<v4>[0-9.]+)|\[(?P<v6>[0-9a-fA-F:.]+)\]):(?P<port>[0-9]{1,5}))"
    r"(?P<path>/[!\"$-~]*)"
)
"""A pod's: an IP address, a port, and a path that needs no quoting."""
STATUS = re.compile(rb"HTTP/1\.1 ([2-5][0-9]{2})(?: [ -~\t]*)?")
LENGTH = re.compile(rb"[ \t]*([0-9]{1,12})[ \t]*")
BODILESS = frozenset({204, 205, 304})
END = b"\r\n\r\n"


class Odd(Exception):  # noqa: N818 - not an error: somebody else has to ask
    """The answer is not of the plain kind; nothing of it was used."""


class TooLongError(Exception):
    """The body is larger than was allowed; it was not read."""


class Head(Struct, frozen=True):
    """What the head of a plain answer says."""

    status: int
    length: int
    """Of the body, bytes."""
    stays: bool
    """Whether the connection may be used again."""


class Reply(Struct, frozen=True):
    """A whole answer."""

    status: int
    body: bytes


@lru_cache(maxsize=HEADS)
def head_of(head: bytes) -> Head | None:
    r"""Read a head without its last line ends; None where it is not of the plain kind.

    >>> head_of(b"HTTP/1.1 200 OK\r\nContent-Length: 7")
    Head(status=200, length=7, stays=True)
    >>> head_of(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked") is None
    True
    """
    first, *lines = head.split(b"\r\n")
    status = STATUS.fullmatch(first)
    if status is None:
        return None
    code, length, stays = int(status[1]), None, True
    for line in lines:
        name, colon, value = line.partition(b":")
        name = name.lower()
        if not colon or name != name.strip() or b"\n" in line:
            return None
        if name == b"content-length":
            number = LENGTH.fullmatch(value)
            if number is None or length is not None:
                return None
            length = int(number[1])
        elif name == b"transfer-encoding":
            return None
        elif name == b"connection":
            stays = value.strip().lower() == b"keep-alive"
    if length is None or code in BODILESS or 300 <= code < 400:
        return None
    return Head(code, length, stays)


@lru_cache(maxsize=ADDRESSES)
def asked_by(url: str) -> tuple[tuple[str, str], bytes] | None:
    """The host and port that a URL names, and the request; None where it is no pod's."""
    where = ADDRESS.fullmatch(url)
    if where is None:
        return None
    request = (
        f"GET {where['path']} HTTP/1.1\r\nHost: {where['authority']}\r\n"
        "Accept: */*\r\nAccept-Encoding: identity\r\n\r\n"
    )
    return (where["v4"] or where["v6"], where["port"]), request.encode()


class Connection(asyncio.Protocol):
    """One connection: a request at a time."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.usable = False
        """Open, and nothing came on it that was not asked for."""
        self.answered = False
        """Something of the present answer has come."""
        self._transport: asyncio.Transport
        self._waiting: asyncio.Future[Reply] | None = None
        self._buffer = bytearray()
        self._head: Head | None = None
        self._most = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport, self.usable = cast("asyncio.Transport", transport), True

    async def ask(self, request: bytes, most: int, wait: asyncio.Future[Reply]) -> Reply:
        """Send a request and read the answer.

        Args:
            request: whole.
            most: bytes that the body may have.
            wait: gets the answer; whoever ends it otherwise ends the connection.

        Raises:
            Odd: the answer is not plain, or the connection ended before it was whole.
            TooLongError: its body is larger than `most` bytes.
        """
        self._buffer, self._head, self._most, self.answered = bytearray(), None, most, False
        self._waiting = wait
        self._transport.write(request)
        try:
            return await self._waiting
        except BaseException:
            self.close()  # what of an answer is still to come must not be taken for another one
            raise
        finally:
            self._waiting = None

    def close(self) -> None:
        """Close it at once."""
        self.usable = False
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Some bytes of an answer; bytes that nobody asked for end the connection."""
        if self._waiting is None or self._waiting.done():
            self.close()
            return
        self.answered = True
        self._buffer += data
        try:
            reply = self._whole()
        except (Odd, TooLongError) as error:
            self._waiting.set_exception(error)
            return
        if reply is not None:
            self._waiting.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        """The pod closed it."""
        self.usable = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(Odd("it ended too early"))

    def _whole(self) -> Reply | None:
        """The answer, once all of it is there.

        Raises:
            Odd: it is not plain.
            TooLongError: its body is too large.
        """
        head = self._head or self._read_head()
        if head is None or len(self._buffer) < head.length:
            return None
        self.usable = head.stays and len(self._buffer) == head.length
        return Reply(head.status, bytes(self._buffer[: head.length]))

    def _read_head(self) -> Head | None:
        end = self._buffer.find(END)
        if end < 0 and len(self._buffer) <= HEAD_BYTES and b"\n\n" not in self._buffer:
            return None
        found = head_of(bytes(self._buffer[:end])) if 0 <= end <= HEAD_BYTES else None
        if found is None:
            raise Odd("no plain answer")
        if found.length > self._most:
            raise TooLongError if found.status == 200 else Odd("a long refusal")
        del self._buffer[: end + len(END)]
        self._head = found
        return found


class PlainHttp:
    """Keeps a connection to each address.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._idle: dict[tuple[str, str], Connection] = {}
        self._deadlines = Deadlines()
        self._swept_at = clock()

    async def get(self, url: str, most: int, until: float) -> Reply:
        """What is answered to a GET of a URL.

        Args:
            url: of the page.
            most: bytes that the body may have.
            until: in the loop's time, by when the answer has to be whole.

        Raises:
            TimeoutError: it was not.
            Odd: the URL or the answer is not of the plain kind: ask with a whole client.
            TooLongError: the body is larger than `most` bytes.
            OSError: nobody can be reached there.
        """
        asked = asked_by(url)
        if asked is None:
            raise Odd("not a pod's address")
        key, request = asked
        self._sweep()
        kept = self._idle.pop(key, None)
        if kept is not None and kept.usable:
            try:
                return await self._through(kept, key, request, most, until)
            except Odd:
                if kept.answered:
                    raise
        async with asyncio.timeout_at(until):
            new = await opened(*key)
        return await self._through(new, key, request, most, until)

    async def _through(
        self,
        connection: Connection,
        key: tuple[str, str],
        request: bytes,
        most: int,
        until: float,
    ) -> Reply:
        wait = asyncio.get_running_loop().create_future()
        self._deadlines.add(wait, until)
        reply = await connection.ask(request, most, wait)
        if connection.usable and key not in self._idle:
            connection.idle_since = self._clock()
            self._idle[key] = connection
        else:
            connection.close()
        return reply

    def _sweep(self) -> None:
        """Close from time to time what is not used any more: its pod has gone."""
        now = self._clock()
        if now - self._swept_at < SWEEP_SECONDS:
            return
        self._swept_at = now
        for key, one in list(self._idle.items()):
            if not one.usable or now - one.idle_since > IDLE_SECONDS:
                self._idle.pop(key).close()

    def close(self) -> None:
        """Close all connections."""
        for one in self._idle.values():
            one.close()
        self._idle.clear()
        self._deadlines.close()


async def opened(host: str, port: str) -> Connection:
    """A new connection.

    Raises:
        OSError: it was refused, or there is no way to it.
        Odd: the port is none.
    """
    if int(port) > 65535:
        raise Odd("not a port")
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, host, int(port))
    return connection
