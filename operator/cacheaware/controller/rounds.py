"""The central loop: every few seconds a round of every scaler, each spoiling only itself."""

import asyncio
import logging
import time
from collections.abc import Callable

from cacheaware.controller.registry import Registry, Scaler
from cacheaware.controller.round import Round, ScalerState, subject_of
from cacheaware.kube import BACKING_OFF, KubeError

log = logging.getLogger(__name__)

SPREAD = 0.8
"""Of the interval: rounds begin evenly over this part of it. All at one moment, each would wait for
the work of all others between its look and its write.
"""
BUNCHES = 16
"""Those whose turns are close begin together: what wakes the loop once for many costs less."""
WAITED = 0.9
"""Of the interval: a pass waits no longer for its rounds."""
PATIENCE = 4
"""A scaler's round that takes this many intervals is given up."""


class Rounds:
    """Runs rounds until cancelled.

    Args:
        round_: does one round.
        registry: tells the scalers there are.
        seconds: from round to round.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        round_: Round,
        registry: Registry,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._round = round_
        self._registry = registry
        self._seconds = seconds
        self._clock = clock
        self._states: dict[str, ScalerState] = {}
        self._scalers: dict[str, Scaler] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self.completed_at: float | None = None
        """When the loop last came round."""

    async def run(self) -> None:
        """Begin a pass each interval, however long single scalers take."""
        due = self._clock()
        while True:
            await self.once()
            due = max(due + self._seconds, self._clock())
            await asyncio.sleep(due - self._clock())

    async def once(self) -> None:
        """One pass; it waits for its rounds no longer than the interval.

        A scaler whose round before is still under way when its turn comes is left out.
        """
        self._round.pods.watch_only(self._registry.namespaces())
        self._drop_gone()
        self._round.metrics.lease.set(self._round.lease.held())
        began, uids = self._clock(), sorted(self._registry.scalers)
        gap = SPREAD * self._seconds / BUNCHES
        for place, uid in enumerate(uids):
            bunch = place * BUNCHES // len(uids)
            if (early := began + bunch * gap - self._clock()) > 0:
                await asyncio.sleep(early)
            scaler = self._registry.scalers.get(uid)
            if scaler is not None and uid not in self._running:
                self._begin(scaler)
        if self._running:
            left = began + WAITED * self._seconds - self._clock()
            await asyncio.wait(self._running.values(), timeout=max(0.0, left))
        self.completed_at = self._clock()

    def _begin(self, scaler: Scaler) -> None:
        task = asyncio.create_task(self._one(scaler), name=f"round of {scaler}")
        self._running[scaler.uid] = task
        task.add_done_callback(lambda _: self._running.pop(scaler.uid, None))

    async def _one(self, scaler: Scaler) -> None:
        """One scaler's round; whatever happens in it ends here."""
        state = self._states.setdefault(scaler.uid, ScalerState())
        self._scalers[scaler.uid] = scaler
        try:
            async with asyncio.timeout(self._seconds * PATIENCE):
                with self._round.metrics.round_seconds.time():
                    await self._round.do(scaler, state)
                    if state.again and (latest := self._registry.scalers.get(scaler.uid)):
                        await self._round.do(latest, state)
        except KubeError as error:
            self._failed(scaler)
            if error.reason != BACKING_OFF:
                log.warning("%s: %s; tried again next round", scaler, error)
        except Exception:  # one scaler's fault must not stop the others
            self._failed(scaler)
            log.exception("%s: the round failed", scaler)

    def _failed(self, scaler: Scaler) -> None:
        self._round.metrics.failed_rounds.labels(scaler.namespace, scaler.name).inc()

    def _drop_gone(self) -> None:
        """Forget all that was kept of scalers that are gone."""
        for uid in set(self._scalers) - set(self._registry.scalers):
            scaler = self._scalers.pop(uid)
            self._states.pop(uid, None)
            if (task := self._running.pop(uid, None)) is not None:
                task.cancel()
            self._round.reporter.forget(subject_of(scaler))
        live = {one.ref.same for one in self._registry.scalers.values() if one.ref is not None}
        self._round.targets.forget(live)

    async def close(self) -> None:
        """Stop the rounds under way."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
