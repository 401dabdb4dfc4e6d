"""A small HTTP/1.1 server on h11: light in memory, and hard to keep busy.

Connections, headers, bodies and times are capped, each with a defined outcome. When all
connections are taken, the one that has been waiting longest for a request gives way, so that a
kubelet's probe gets in whatever else is connected; probes are answered without waiting for any
other request. No decision rests on the address of a peer.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import h11

TEXT: Final = "text/plain; charset=utf-8"
REASONS: Final = {
    200: b"OK",
    400: b"Bad Request",
    401: b"Unauthorized",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    409: b"Conflict",
    413: b"Content Too Large",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    503: b"Service Unavailable",
    505: b"HTTP Version Not Supported",
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request with what routes need of it."""

    method: str
    path: str
    authorization: tuple[str, ...] = ()
    """Every Authorization header, as it came."""
    body: bytes = b""
    """Of a POST; empty otherwise."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; a text gets its line end."""

    status: int
    body: bytes
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def text(cls, status: int, line: str, *headers: tuple[str, str]) -> "Response":
        """One line of text."""
        return cls(status, f"{line}\n".encode(), headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one peer, and all peers together, may take."""

    connections: int = 64
    busy: int = 24
    """Requests in work at the same time, probes not counted."""
    header_bytes: int = 16384
    body_bytes: int = 65536
    request_s: float = 5.0
    """From the first byte of a request to its last, and for a new connection to its first."""
    idle_s: float = 75.0
    """Between two requests on one connection."""
    send_s: float = 5.0
    """Until the peer has taken the answer."""


log = logging.getLogger(__name__)
Handler = Callable[[Request], Awaitable[Response]]


class _Refusal(Exception):  # noqa: N818 - not an error: the answer to one
    """An answer that ends the connection."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.response = Response.text(status, line)


@dataclass(eq=False)
class _Peer:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    protocol: h11.Connection
    task: asyncio.Task[None]
    waits_since: float | None = field(default=None)
    """Since when it has owed a request; None while one is answered."""


def listen(port: int) -> socket.socket:
    """A listening socket for IPv6 and IPv4, or IPv4 alone where there is no IPv6.

    Raises:
        OSError: the port is taken or may not be used.
    """
    try:
        return socket.create_server(
            ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128
        )
    except (OSError, ValueError):
        return socket.create_server(("0.0.0.0", port), backlog=128)  # noqa: S104 - a pod's port


class HttpServer:
    """Serves one handler; paths in `first` are answered even when the rest is busy."""

    def __init__(
        self, handler: Handler, *, first: frozenset[str], limits: Limits | None = None
    ) -> None:
        self._handler = handler
        self._first = first
        self._limits = limits or Limits()
        self._peers: set[_Peer] = set()
        self._busy = 0
        self._server: asyncio.Server | None = None

    async def start(self, sock: socket.socket) -> None:
        """Begins to accept connections."""
        self._server = await asyncio.start_server(
            self._connected, sock=sock, limit=self._limits.header_bytes
        )

    async def stop(self) -> None:
        """Closes the port and all connections at once."""
        if self._server:
            self._server.close()
        tasks = [peer.task for peer in self._peers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.header_bytes)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a callback of asyncio's server is always a task
        peer = _Peer(reader, writer, protocol, task)
        if not self._make_room():
            writer.transport.abort()
            return
        writer.transport.set_write_buffer_limits(high=0)  # drained is sent: abort loses nothing
        self._peers.add(peer)
        try:
            await self._converse(peer)
        except (OSError, TimeoutError, h11.RemoteProtocolError, h11.LocalProtocolError):
            pass
        except asyncio.CancelledError:
            pass  # the connection is closed below; nobody waits for this task
        finally:
            self._peers.discard(peer)
            writer.transport.abort()

    def _make_room(self) -> bool:
        """Whether there is room for one more; the peer that waited longest gives way."""
        if len(self._peers) < self._limits.connections:
            return True
        waiting = [peer for peer in self._peers if peer.waits_since is not None]
        if waiting:
            oldest = min(waiting, key=lambda peer: peer.waits_since or 0.0)
            self._peers.discard(oldest)
            oldest.task.cancel()
        return bool(waiting) or len(self._peers) < 2 * self._limits.connections

    async def _converse(self, peer: _Peer) -> None:
        wait_s = self._limits.request_s
        while True:
            peer.waits_since = asyncio.get_running_loop().time()
            try:
                request = await self._read(peer, wait_s)
            except _Refusal as refusal:
                await self._answer(peer, None, refusal.response, close=True)
                return
            peer.waits_since = None
            if request is None:
                return
            await self._answer(peer, request, await self._respond(request))
            if peer.protocol.our_state is not h11.DONE:
                return
            peer.protocol.start_next_cycle()
            wait_s = self._limits.idle_s
            await asyncio.sleep(0)  # requests that lie there already give way to other peers

    async def _read(self, peer: _Peer, wait_s: float) -> Request | None:
        """The next request, whole; None when the peer has gone or is idle."""
        head: h11.Request | None = None
        body = bytearray()
        size = 0
        try:
            async with asyncio.timeout(wait_s) as timer:
                while True:
                    event = await self._next_event(peer, timer)
                    match event:
                        case h11.Request() if event.http_version not in {b"1.0", b"1.1"}:
                            raise _Refusal(505, "allowed: HTTP/1.0, HTTP/1.1")
                        case h11.Request():
                            head = event
                        case h11.Data():
                            size += len(event.data)
                            if head and head.method == b"POST":
                                body += event.data
                            if size > self._limits.body_bytes:
                                raise _Refusal(413, "the body is too large")
                        case h11.EndOfMessage() if head:
                            return _request(head, bytes(body))
                        case _:
                            return None
        except TimeoutError:
            if head or peer.protocol.trailing_data[0]:
                raise _Refusal(408, "the request took too long") from None
            return None

    async def _next_event(self, peer: _Peer, timer: asyncio.Timeout) -> object:
        while True:
            try:
                event = peer.protocol.next_event()
            except h11.RemoteProtocolError as error:
                status = error.error_status_hint
                raise _Refusal(status if status in REASONS else 400, "bad request") from None
            if event is not h11.NEED_DATA:
                return event
            fresh = not peer.protocol.trailing_data[0]
            data = await peer.reader.read(16384)
            if fresh and peer.protocol.their_state is h11.IDLE:
                timer.reschedule(asyncio.get_running_loop().time() + self._limits.request_s)
            peer.protocol.receive_data(data)

    async def _respond(self, request: Request) -> Response:
        if request.path in self._first:
            return await self._handle(request)
        if self._busy >= self._limits.busy:
            return Response.text(503, "too many requests at once", ("retry-after", "1"))
        self._busy += 1
        try:
            return await self._handle(request)
        finally:
            self._busy -= 1

    async def _handle(self, request: Request) -> Response:
        try:
            return await self._handler(request)
        except Exception:
            log.exception("%s %s: our own fault", request.method, request.path)
            return Response.text(500, "our own fault, see the log")

    async def _answer(
        self, peer: _Peer, request: Request | None, response: Response, *, close: bool = False
    ) -> None:
        if peer.protocol.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        headers = [
            ("content-type", response.content_type),
            ("content-length", str(len(response.body))),
            *response.headers,
        ]
        if close:
            headers.append(("connection", "close"))
        head = h11.Response(
            status_code=response.status, headers=headers, reason=REASONS.get(response.status, b"")
        )
        data = peer.protocol.send(head) or b""
        if request is None or request.method != "HEAD":
            data += peer.protocol.send(h11.Data(data=response.body)) or b""
        data += peer.protocol.send(h11.EndOfMessage()) or b""
        peer.writer.write(data)
        async with asyncio.timeout(self._limits.send_s):
            await peer.writer.drain()
        if close:
            await self._linger(peer)

    async def _linger(self, peer: _Peer) -> None:
        """Lets the peer read a last answer: an abort with unread data would discard it."""
        with suppress(OSError, TimeoutError):
            if peer.writer.can_write_eof():
                peer.writer.write_eof()
            async with asyncio.timeout(1.0):
                while await peer.reader.read(65536):
                    pass


def _request(head: h11.Request, body: bytes) -> Request:
    authorization = [value for name, value in head.headers if name == b"authorization"]
    return Request(
        method=head.method.decode(),
        path=_path(head.target),
        authorization=tuple(value.decode("latin-1") for value in authorization),
        body=body,
    )


def _path(target: bytes) -> str:
    return target.partition(b"?")[0].decode("ascii", "replace")
