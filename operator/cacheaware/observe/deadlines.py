"""Many waits that each have the same time: the oldest ends first, so one timer serves them all."""

import asyncio
from collections import deque
from typing import Any


class Deadlines:
    """Ends what has waited too long; a timer for each of a thousand waits a second is not cheap."""

    def __init__(self) -> None:
        self._waits: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, wait: asyncio.Future[Any], at: float) -> None:
        """End a wait in a TimeoutError, unless it is done by then.

        Args:
            wait: of the running loop.
            at: in the loop's time; not before that of the wait added last.
        """
        self._drop_done()
        self._waits.append((at, wait))
        if self._timer is None:
            self._timer = wait.get_loop().call_at(at, self._end)

    def close(self) -> None:
        """End no wait any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._waits.clear()

    def _end(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waits and self._waits[0][0] <= now:
            _, wait = self._waits.popleft()
            if not wait.done():
                wait.set_exception(TimeoutError())
        self._drop_done()
        self._timer = loop.call_at(self._waits[0][0], self._end) if self._waits else None

    def _drop_done(self) -> None:
        while self._waits and self._waits[0][1].done():
            self._waits.popleft()
