"""Faults on demand, for tests: metrics that lie or vanish, a health that fails, a model adrift."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

ALLOWED = {
    "metrics": ("hang", "401", "404", "500", "redirect", "empty", "garbage", "nan", "frozen"),
    "health": ("hang", "fail"),
    "requests": ("hang", "500"),
    "model": ("drift",),
}


class FaultError(ValueError):
    """A fault that doesn't exist, in one line."""


class Faults:
    """Which part fails how, and until when.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._active: dict[str, str] = {}
        self._until: float | None = None
        self._changed = asyncio.Event()

    def set(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Replace all faults; `{}` ends them. The faults as they are now.

        Raises:
            FaultError: An unknown part, fault, or a time that is no positive number.
        """
        wanted = {key: value for key, value in order.items() if key != "for_seconds"}
        for part, fault in wanted.items():
            if fault not in ALLOWED.get(part, ()):
                allowed = ", ".join(ALLOWED.get(part, ALLOWED))
                raise FaultError(f"{part} {fault}: allowed are {allowed}")
        seconds = order.get("for_seconds")
        if seconds is not None and (not isinstance(seconds, int | float) or not seconds > 0):
            raise FaultError(f"for_seconds {seconds}: must be above 0")
        self._active = wanted
        self._until = None if seconds is None else self._clock() + seconds
        self._changed.set()
        self._changed = asyncio.Event()
        return self.shown()

    def of(self, part: str) -> str | None:
        """The fault of a part now."""
        if self._until is not None and self._clock() >= self._until:
            self._active = {}
        return self._active.get(part)

    def shown(self) -> dict[str, Any]:
        """The faults now, with the seconds they have left."""
        active = {part: fault for part in ALLOWED if (fault := self.of(part))}
        if active and self._until is not None:
            return {**active, "for_seconds": round(self._until - self._clock(), 3)}
        return active

    async def over(self) -> None:
        """Wait until the faults of now have run out or were replaced."""
        left = None if self._until is None else max(0.0, self._until - self._clock())
        try:
            await asyncio.wait_for(self._changed.wait(), left)
        except TimeoutError:
            return
