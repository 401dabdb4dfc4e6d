"""The event loop that the operator runs on: uvloop where it is installed, else asyncio's own.

A fleet is asked over thousands of small reads and writes a second, which cost less with the loop in
C. Nothing else depends on which it is.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run to the end; returns the exit code."""
    with asyncio.Runner(loop_factory=factory()) as runner:
        return runner.run(work)


def factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the loop; None: asyncio's own, where uvloop has no build for the platform."""
    try:
        import uvloop  # noqa: PLC0415 - not everywhere there
    except ImportError:
        return None
    return uvloop.new_event_loop
