"""The sidecar: its routes, its socket, its loops, and how it starts and stops."""

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from cacheaware_sidecar import drain, export, store
from cacheaware_sidecar.authorization import Authorization
from cacheaware_sidecar.canary.watch import CanaryWatch
from cacheaware_sidecar.cluster_keys import ClusterKeys
from cacheaware_sidecar.control import Control
from cacheaware_sidecar.drain_socket import DrainSocket, Progress
from cacheaware_sidecar.engine_client import EngineClient
from cacheaware_sidecar.http_server import HttpServer, Request, Response, listen
from cacheaware_sidecar.lifecycle import Lifecycle
from cacheaware_sidecar.pod import Pod
from cacheaware_sidecar.settings import Settings
from cacheaware_sidecar.state_json import pod_state_to_json
from cacheaware_sidecar.version import version
from cacheaware_sidecar.watch import Watch

PROBES: Final = frozenset({"/readyz", "/livez"})
STUCK_S: Final = 60.0
"""A loop that has not come round for this time, and twice the scrape's timeout, is stuck."""
WAIT_STEP_S: Final = 0.25
PROGRESS_S: Final = 1.0
JSON_TYPE: Final = "application/json"
log = logging.getLogger(__name__)


class App:
    """One sidecar for one engine."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        folder, boot = Path(settings.shared_dir), store.boot_id()
        now = time.monotonic()
        state = store.restore(folder, boot, now)
        if state:
            log.info("goes on as %s after a restart of the sidecar", state.phase)
        state = state or Lifecycle(since=now, spent=store.spent_tokens(folder))
        self.pod = Pod(settings, state, boot=boot, now=now)
        keys = ClusterKeys(Path(settings.token_dir), os.environ)
        self._control = Control(self.pod, Authorization(settings, keys))
        self._engine = EngineClient(settings)
        self._watch = Watch(settings, self.pod, self._engine)
        self._canary = CanaryWatch(settings, self.pod, self._engine)
        self._http = HttpServer(self.respond, first=PROBES)
        self._socket = DrainSocket(folder, self._final_drain)
        self._routes: dict[str, Callable[[], Awaitable[Response]]] = {
            "/readyz": self._readyz,
            "/livez": self._livez,
            "/v1/state": self._state,
            "/metrics": self._metrics,
            "/drain/wait": self._drain_wait,
        }

    async def run(self) -> None:
        """Serves until SIGTERM or SIGINT.

        Raises:
            OSError: the port or the socket can't be used.
        """
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await self._socket.start()
        await self._http.start(listen(self._settings.port))
        port, engine = self._settings.port, self._settings.engine_url
        log.info("cacheaware-sidecar %s listens on port %d, engine %s", version(), port, engine)
        watch = self._watch
        loops = [
            asyncio.create_task(watch.scrape_forever(), name="scrape loop"),
            asyncio.create_task(watch.tick_forever(), name="tick loop"),
            asyncio.create_task(watch.read_config_forever(), name="config loop"),
            asyncio.create_task(self._canary.ask_forever(), name="canary loop"),
        ]
        for loop in loops:
            loop.add_done_callback(_say_if_broken)
        await stopped.wait()
        log.info("stops")
        for loop in loops:
            loop.cancel()
        await asyncio.gather(
            self._http.stop(),
            self._socket.stop(),
            self._watch.stop(),
            *loops,
            return_exceptions=True,
        )
        await self._engine.close()

    async def respond(self, request: Request) -> Response:
        """Routes a request."""
        if request.path in self._control.paths:
            if request.method != "POST":
                return Response.text(405, "allowed: POST", ("allow", "POST"))
            return await self._control.respond(request)
        route = self._routes.get(request.path)
        if route is None:
            routes = (*self._routes, *sorted(self._control.paths))
            return Response.text(404, "routes: " + " ".join(routes))
        if request.method not in {"GET", "HEAD"}:
            return Response.text(405, "allowed: GET, HEAD", ("allow", "GET, HEAD"))
        if (request.method, request.path) == ("HEAD", "/drain/wait"):
            return Response.text(200, "GET begins the final drain and waits")
        return await route()

    async def _readyz(self) -> Response:
        now = time.monotonic()
        return Response.text(200 if self.pod.is_ready(now) else 503, self.pod.status_line(now))

    async def _livez(self) -> Response:
        now = time.monotonic()
        limit = STUCK_S + 2 * self._settings.scrape_timeout_seconds
        stuck = [name for name, at in self._watch.beats.items() if now - at > limit]
        if stuck:
            return Response.text(503, f"stuck: {', '.join(stuck)}")
        return Response.text(200, "alive")

    async def _state(self) -> Response:
        state = pod_state_to_json(self.pod.pod_state(time.monotonic()))
        return Response(200, json.dumps(state).encode(), JSON_TYPE)

    async def _metrics(self) -> Response:
        page = export.render(self.pod.view(time.monotonic()))
        return Response(200, page, export.CONTENT_TYPE)

    async def _drain_wait(self) -> Response:
        """The hook of engines without Python: its deadline counts from its arrival."""
        own = time.monotonic() + self._settings.drain_seconds

        def deadline() -> float:
            final = self.pod.state.drain
            return own if final is None or final.limit is None else min(own, final.limit)

        async for progress in self._wait_for_drain(deadline):
            last = progress
        return Response.text(200, f"{last.state}: {last.text}")

    def _final_drain(self) -> AsyncIterator[Progress]:
        """The hook over the socket: its deadline is that of the drain."""
        fallback = time.monotonic() + self._settings.drain_seconds

        def deadline() -> float:
            final = self.pod.state.drain
            return final.deadline if final else fallback

        return self._wait_for_drain(deadline)

    async def _wait_for_drain(self, deadline: Callable[[], float]) -> AsyncIterator[Progress]:
        """Begins the final drain; tells its progress, at last how it ended."""
        self.pod.begin_drain(time.monotonic())
        told_at = 0.0
        while True:
            now = time.monotonic()
            self.pod.tick(now)
            progress = self._progress(deadline(), now)
            if progress.state != drain.Outcome.WAITING or now - told_at >= PROGRESS_S:
                told_at = now
                yield progress
            if progress.state != drain.Outcome.WAITING:
                return
            await asyncio.sleep(WAIT_STEP_S)

    def _progress(self, deadline: float, now: float) -> Progress:
        outcome = drain.outcome(self.pod.state, deadline=deadline, now=now)
        sample = self.pod.observed.sample
        return Progress(
            state=outcome.value,
            text=self.pod.drain_end
            if outcome is drain.Outcome.DONE
            else self.pod.observed.load_line(),
            running=sample.running if sample else None,
            waiting=sample.waiting if sample else None,
            deadline_s=round(max(0.0, deadline - now), 3),
        )


def _say_if_broken(task: asyncio.Task[None]) -> None:
    """A loop never ends by itself, but those for config.json and the canary; /livez tells."""
    if not task.cancelled() and (error := task.exception()):
        log.error("%s broke off", task.get_name(), exc_info=error)
