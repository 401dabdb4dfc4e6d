"""The loop that asks the canary: by schedule, while the pod serves and nothing waits."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from cacheaware_sidecar.canary.ask import Engine, UnansweredError, ask
from cacheaware_sidecar.canary.baseline_json import BaselineError
from cacheaware_sidecar.canary.completion import NoLogprobsError
from cacheaware_sidecar.engine_answers import Answer, answer_tokens, prompt_tokens
from cacheaware_sidecar.engines import EngineSample, Own
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.pod import Pod
from cacheaware_sidecar.settings import Settings

STEP_S: Final = 1.0
JITTER: Final = 0.2
"""Each pause is up to so much longer: pods that began together don't stay together."""
log = logging.getLogger(__name__)


class CanaryWatch:
    """Asks one engine the canary and tells the pod."""

    def __init__(
        self,
        settings: Settings,
        pod: Pod,
        engine: Engine,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        dice: random.Random | None = None,
    ) -> None:
        self._settings = settings
        self._pod = pod
        self._engine = engine
        self._clock = clock
        self._sleep = sleep
        self._dice = dice or random.Random()  # noqa: S311 - spreads a fleet, no secret
        self._asked_engine = pod.state.engine
        self._due: float | None = None

    async def ask_forever(self) -> None:
        """Asks whenever it is time; ends at once where the canary is off."""
        while self._pod.canary.seconds:
            try:
                await self.turn()
            except Exception:  # our own fault must not end the loop
                log.exception("canary: our own fault")
            await self._sleep(STEP_S)

    async def turn(self) -> None:
        """Asks once if it is time. The first run of a pod falls anywhere within its pause."""
        pod, canary = self._pod, self._pod.canary
        if pod.state.engine != self._asked_engine:
            self._asked_engine = pod.state.engine
            canary.forget_engine()
        if pod.phase is not Phase.SERVING:
            self._due = None
            return
        now = self._clock()
        if self._due is None:
            self._due = now + self._dice.random() * canary.pause_s
        if now < self._due:
            return
        if (busy := _busy(pod, now, self._settings.scrape_interval_seconds)) is None:
            await self._ask_while_serving()
        else:
            canary.skipped(busy)
        self._due = self._clock() + canary.pause_s * (1 + JITTER * self._dice.random())

    async def _ask_while_serving(self) -> None:
        """One run, let go as soon as the pod leaves service or its engine is another."""
        task = asyncio.create_task(self._ask(), name="canary")
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=STEP_S / 4)
                state = self._pod.state
                if state.phase is not Phase.SERVING or state.engine != self._asked_engine:
                    return
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _ask(self) -> None:
        canary, sample = self._pod.canary, self._pod.observed.sample or EngineSample()
        canary.in_flight += 1
        try:
            question = canary.question(self._settings.model, sample.engine)
            asked = await ask(self._engine, question, answered=self._answered)
            canary.take(asked, self._clock())
        except (NoLogprobsError, BaselineError) as error:
            canary.does_not_apply(str(error), self._clock())
        except UnansweredError as error:
            canary.failed(str(error))
        finally:
            canary.in_flight -= 1

    def _answered(self, answer: Answer) -> None:
        """Our own requests are no load."""
        own = Own(
            requests=1.0,
            prompt_tokens=float(prompt_tokens(answer) or 0),
            generation_tokens=float(answer_tokens(answer) or 0),
        )
        self._pod.observed.add_own(own, self._clock())


def _busy(pod: Pod, now: float, interval_s: float) -> str | None:
    """Why the engine is not asked now: users come first, and what is unknown is no room."""
    sample = pod.observed.sample
    if sample is None or not pod.observed.is_fresh(interval_s, now) or pod.observed.problem:
        return "the engine's page is not known now"
    if sample.sleeping:
        return "the engine sleeps"
    if sample.waiting is None:
        return "the page doesn't tell whether requests wait"
    return f"{sample.waiting:g} requests wait" if sample.waiting else None
