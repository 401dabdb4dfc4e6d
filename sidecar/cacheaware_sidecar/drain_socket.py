"""The Unix socket in the shared folder: a preStop hook begins the final drain and waits.

One line of JSON in, `{"drain": "wait"}`; lines of JSON out, one a second, until one has a state
other than `waiting`. There is no TCP route to it: only containers that mount the folder reach it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = "drain.sock"
REQUEST_S: Final = 5.0
MOST_WAITERS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How a wait stands."""

    state: str
    """waiting, done or deadline."""
    text: str
    running: float | None
    waiting: float | None
    deadline_s: float
    """Seconds left."""


Wait = Callable[[], AsyncIterator[Progress]]


class DrainSocket:
    """Serves waits; `begin` starts the drain and tells its progress."""

    def __init__(self, folder: Path, begin: Wait) -> None:
        self._path = folder / FILE
        self._begin = begin
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Opens the socket; one left by a killed sidecar is replaced.

        Raises:
            OSError: the folder can't be written.
        """
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._connected, self._path, limit=1024)
        self._path.chmod(0o666)  # the engine's container may run as another user

    async def stop(self) -> None:
        """Closes the socket and hangs up."""
        if self._server:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._tasks) >= MOST_WAITERS:
            writer.transport.abort()
            return
        self._tasks.add(task)
        with suppress(OSError, ValueError, TimeoutError, asyncio.CancelledError):
            await self._serve(reader, writer)
        self._tasks.discard(task)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(REQUEST_S):
            line = await reader.readline()
        if not is_request(line):
            writer.write(b'{"state": "error", "text": "allowed: {\\"drain\\": \\"wait\\"}"}\n')
            return
        async for progress in self._begin():
            writer.write(as_line(progress))
            await writer.drain()


def is_request(line: bytes) -> bool:
    """Whether the line asks for the final drain."""
    try:
        return bool(json.loads(line) == {"drain": "wait"})
    except (ValueError, RecursionError):
        return False


def as_line(progress: Progress) -> bytes:
    """Progress as a line of JSON."""
    told = {name: getattr(progress, name) for name in Progress.__slots__}
    return json.dumps(told).encode() + b"\n"
