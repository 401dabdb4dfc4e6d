"""Drives the engine model by the wall clock, inside an event loop."""

import asyncio
import time
from collections.abc import Callable, Iterable

from cacheaware_sim.engine import Engine
from cacheaware_sim.request import Phase, Request

LATE_S = 0.25
"""A loop that is later than this goes on from now instead of catching up."""
STEPS_AT_ONCE = 64


class Ticket:
    """A request's place in the engine, as the one who waits for it holds it."""

    __slots__ = ("_changed", "next_look", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.next_look = 1
        """Output tokens at which a stream is woken next: the first comes at once."""
        self._changed = asyncio.Event()

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.request.phase is Phase.FINISHED

    async def change(self) -> None:
        """Wait for tokens if it streams, else for the end."""
        await self._changed.wait()
        self._changed.clear()

    def wake(self) -> None:
        """Let the waiting one look."""
        self._changed.set()


class RealTimeEngine:
    """An engine that runs while its loop runs, and sleeps while there is nothing to do.

    Iterations end when the model says so, not when the loop wakes: short ones are made up for in
    one go, so that the speed is right although timers are coarse.

    Args:
        engine: The model.
        clock: Monotonic seconds, the clock that `engine` was created by.
        stream_interval: Tokens after which a stream is woken again, as vLLM's flag of that name.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], float] = time.monotonic,
        *,
        stream_interval: int = 1,
    ) -> None:
        self.engine = engine
        self._stream_interval = stream_interval
        self.exited = asyncio.Event()
        self._clock = clock
        self._ends_at: float | None = None
        self._tickets: dict[int, Ticket] = {}
        self._streams: set[Ticket] = set()
        self._wake = asyncio.Event()

    def submit(self, request: Request, *, streams: bool = False) -> Ticket:
        """Queue a request; raises what `Engine.submit` raises."""
        self.engine.submit(request, self._now())
        ticket = Ticket(request)
        self._tickets[request.id] = ticket
        if streams:
            self._streams.add(ticket)
        if self._ends_at is None:
            self._wake.set()
        return ticket

    def drop(self, ticket: Ticket) -> None:
        """Abort a request that nobody waits for any more; one that has ended stays as it is."""
        self.engine.abort(ticket.request, self._now())
        self._forget((ticket.request,))

    def terminate(self) -> None:
        """SIGTERM."""
        self._forget(self.engine.terminate(self._now()))
        self._wake.set()

    async def run(self) -> None:
        """Iterate for ever."""
        while True:
            delay = self._advance()
            if self.engine.exited:
                self.exited.set()
            await self._sleep(delay)

    def _now(self) -> float:
        """The time; while an iteration runs never after its end, even if the loop is late."""
        now = self._clock()
        return now if self._ends_at is None else min(now, self._ends_at)

    def _advance(self) -> float | None:
        """Run the iterations that are due; seconds until the next, None if there is none."""
        now = self._clock()
        if now >= self.engine.abort_at:
            self._forget(self.engine.abort_all(now))
        for _ in range(STEPS_AT_ONCE):
            if self._ends_at is not None and self._ends_at > now:
                break
            if not self._step(now):
                return self._until(self.engine.abort_at, now)
        self._wake_streams()
        return self._until(self._ends_at, now)

    def _wake_streams(self) -> None:
        for ticket in self._streams:
            generated = self.engine.generated(ticket.request)
            if generated >= ticket.next_look:
                ticket.next_look = generated + self._stream_interval
                ticket.wake()

    def _step(self, now: float) -> bool:
        start = now if self._ends_at is None or now - self._ends_at > LATE_S else self._ends_at
        result = self.engine.step(start)
        self._forget(result.finished)
        self._forget(result.aborted)
        self._ends_at = None if result.duration_s is None else start + result.duration_s
        return self._ends_at is not None

    def _until(self, moment: float | None, now: float) -> float | None:
        earliest = min(moment or self.engine.abort_at, self.engine.abort_at)
        return None if earliest == float("inf") else max(0.0, earliest - now)

    def _forget(self, ended: Iterable[Request]) -> None:
        for request in ended:
            ticket = self._tickets.pop(request.id, None)
            if ticket is not None:
                self._streams.discard(ticket)
                ticket.wake()

    async def _sleep(self, delay: float | None) -> None:
        timer = None
        if delay is not None:
            timer = asyncio.get_running_loop().call_later(delay, self._wake.set)
        await self._wake.wait()
        self._wake.clear()
        if timer is not None:
            timer.cancel()
