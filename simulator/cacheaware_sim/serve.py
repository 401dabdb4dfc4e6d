"""The mock engine as a process: loads, opens its port, answers, ends by its habit."""

import asyncio
import signal
import sys
import time
from collections.abc import Coroutine
from typing import Any

from aiohttp import web

from cacheaware_sim.engine import Engine
from cacheaware_sim.faults import Faults
from cacheaware_sim.metrics_page import MetricsPage
from cacheaware_sim.openai_api import Served
from cacheaware_sim.real_time import RealTimeEngine
from cacheaware_sim.server import Server, started_at
from cacheaware_sim.settings import Settings

FLUSH_S = 1.0
"""Time for the last answers to reach their clients."""


def run(settings: Settings) -> None:
    """Serve until SIGTERM (or SIGINT) has had its way."""
    asyncio.run(serve(settings, time.monotonic()))


async def serve(settings: Settings, created_at: float) -> None:
    """Serve until a signal ends it; the port opens after the cold start, as with vLLM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    engine = RealTimeEngine(
        Engine(settings.config, created_at), stream_interval=settings.stream_interval
    )
    if await _asked_to_stop(stop, settings.config.cold_start_s):
        return
    iterate = asyncio.create_task(engine.run())
    runner = web.AppRunner(
        _server(settings, engine, created_at).app(),
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=FLUSH_S,
    )
    try:
        site = await _listen(runner, settings)
        await _first_done(stop.wait(), iterate)
        await _end(settings, engine, site, iterate)
    finally:
        await runner.cleanup()
        iterate.cancel()


def _server(settings: Settings, engine: RealTimeEngine, created_at: float) -> Server:
    served = Served(
        model=settings.model,
        max_model_len=settings.config.max_model_len,
        answer_tokens=settings.answer_tokens,
    )
    page = MetricsPage(
        model_name=settings.model, config=settings.config, created=started_at(created_at)
    )
    faults = Faults(time.monotonic) if settings.faults else None
    return Server(
        engine,
        served,
        page,
        api_key=settings.api_key,
        faults=faults,
        close_while=settings.close_while,
    )


async def _listen(runner: web.AppRunner, settings: Settings) -> web.TCPSite:
    await runner.setup()
    site = web.TCPSite(runner, settings.host, settings.port)
    await site.start()
    host, port = runner.addresses[0][:2]
    _say(f"{settings.model} is ready on {host}:{port}")
    return site


async def _end(
    settings: Settings, engine: RealTimeEngine, site: web.TCPSite, iterate: asyncio.Task[None]
) -> None:
    """SIGTERM by the engine's habit; returns when nothing runs any more."""
    termination = settings.config.termination
    _say(f"SIGTERM: {termination.habit}, {termination.patience_s:g} s")
    engine.terminate()
    if not termination.listens:
        await site.stop()
        if (server := site._runner.server) is not None:  # noqa: SLF001 - the runner it was made of
            server.pre_shutdown()
    await _first_done(engine.exited.wait(), iterate)


async def _asked_to_stop(stop: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def _first_done(event: Coroutine[Any, Any, object], task: asyncio.Task[None]) -> None:
    """Wait for the event; if the engine's own task dies first, die of the same."""
    waiting = asyncio.create_task(event)
    await asyncio.wait((waiting, task), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        task.result()


def _say(line: str) -> None:
    sys.stderr.write(f"mock-engine: {line}\n")
    sys.stderr.flush()
