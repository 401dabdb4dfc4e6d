"""/healthz, /readyz and /metrics."""

import errno
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from cacheaware.controller.relist import Relist
from cacheaware.controller.rounds import Rounds
from cacheaware.observe.podcache import IDLE_SECONDS, PodCache
from cacheaware.telemetry import Metrics

PATIENCE_ROUNDS = 4
PATIENCE_SECONDS = 30.0
"""The loop may be late by this much before the operator is held to be stuck."""
STUCK_SECONDS = 4 * IDLE_SECONDS
"""A watch of pods that neither works nor fails for this long is dead; to be refused is no death."""


@dataclass(slots=True, kw_only=True)
class Health:
    """Whether the operator works."""

    rounds: Rounds
    relist: Relist
    pods: PodCache
    seconds: float
    clock: Callable[[], float] = time.monotonic

    def sick(self) -> str | None:
        """What is wrong beyond hope; None while all is well."""
        now, at = self.clock(), self.rounds.completed_at
        limit = max(PATIENCE_ROUNDS * self.seconds, PATIENCE_SECONDS)
        if at is not None and now - at > limit:
            return f"the last round ended {now - at:.0f} s ago"
        if self.relist.watch_dead:
            return "a watch delivers nothing"
        if self.pods.stuck_for(now) > STUCK_SECONDS:
            return f"a watch of pods is stuck for {self.pods.stuck_for(now):.0f} s"
        return None

    def ready(self) -> bool:
        """Whether the first lists are in, or known to be refused."""
        return self.relist.listed and self.pods.all_asked()


def listen(port: int) -> socket.socket:
    """One socket for IPv4 and IPv6; for IPv4 alone where a node has no IPv6.

    Raises:
        OSError: the port is taken.
    """
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
    return socket.create_server(("", port))


class Server:
    """Serves the three paths on all addresses."""

    def __init__(self, health: Health, metrics: Metrics, port: int) -> None:
        self._health = health
        self._metrics = metrics
        self._port = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Listen; returns the port.

        Raises:
            OSError: the port is taken.
        """
        app = web.Application()
        app.router.add_get("/healthz", self.healthz)
        app.router.add_get("/readyz", self.readyz)
        app.router.add_get("/metrics", self.metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        listening = listen(self._port)
        await web.SockSite(self._runner, listening).start()
        return int(listening.getsockname()[1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def healthz(self, _: web.Request) -> web.Response:
        """Fails when only a restart helps."""
        sick = self._health.sick()
        return web.Response(text=sick or "ok", status=503 if sick else 200)

    async def readyz(self, _: web.Request) -> web.Response:
        """Fails until the first lists are in."""
        ready = self._health.ready()
        return web.Response(text="ok" if ready else "listing", status=200 if ready else 503)

    async def metrics(self, _: web.Request) -> web.Response:
        """The operator's metrics."""
        self._metrics.watch_silence.set(self._health.pods.silent_for(self._health.clock()))
        page = generate_latest(self._metrics.registry)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})
