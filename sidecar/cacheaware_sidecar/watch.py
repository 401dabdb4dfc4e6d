"""The loops that look: at the engine's page and health, at the clock, and at config.json."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx

from cacheaware_sidecar import (
    engine_sockets,
    hot_prefixes,
    model_config,
    relief_abort,
    served_models,
    warmup,
)
from cacheaware_sidecar.closing import CLOSING
from cacheaware_sidecar.engine_answers import Answer
from cacheaware_sidecar.engine_client import (
    EngineClient,
    Health,
    SomeMissingError,
    is_refusal,
)
from cacheaware_sidecar.engine_sockets import NOTHING_LEFT, Rest
from cacheaware_sidecar.engines import EngineSample, has_counted, scan, together, without_own
from cacheaware_sidecar.fetch import FetchError, FetchFailure
from cacheaware_sidecar.health import Look
from cacheaware_sidecar.health.signs import signs
from cacheaware_sidecar.lifecycle import Healthy, Refused, Silent, Unhealthy, Verdict
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.pod import EXAMINED, PARTLY_REFUSED, REFUSED, Pod
from cacheaware_sidecar.settings import Settings
from cacheaware_sidecar.warmup_plan import HotPrefix, Limits, Step, Wishes, plan

TICK_S: Final = 0.5
HEALTH_S: Final = 5.0
"""Between two looks at the health of an engine that serves."""
LOADING_TIMEOUT_S: Final = 10.0
SERVING_TIMEOUT_S: Final = 2.0
"""How long /health may take; in service it must not hold up the scrapes."""
GENERATES: Final = {"sglang"}
"""Its /health generates a token."""
SHEDS: Final = {"tgi"}
"""Its /health says 503 under load, which is no sign of death."""
DRAIN_INTERVAL_S: Final = 1.0
EMPTYING: Final = frozenset({Phase.CORDONED, Phase.DRAINING})
LAST_LOOKS: Final = 5
LAST_LOOK_S: Final = 0.2
"""So often, and after so long, the page is read at a warm-up's end until it shows all of it."""
log = logging.getLogger(__name__)
Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


class Watch:
    """Looks at one engine and tells the pod."""

    def __init__(
        self,
        settings: Settings,
        pod: Pod,
        engine: EngineClient,
        *,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._pod = pod
        self._engine = engine
        self._clock = clock
        self._sleep = sleep
        self._health_at: float | None = None
        self._warmup: tuple[int, asyncio.Task[None]] | None = None
        self._runner: warmup.Runner | None = None
        self._abort: asyncio.Task[None] | None = None
        self.beats = dict.fromkeys(("scrape", "tick"), clock())
        """When each loop came round last."""

    async def scrape_forever(self) -> None:
        """Looks once an interval. A slow look makes the next ones fall out, none pile up."""
        due = self._clock()
        while True:
            try:
                await self.look()
            except Exception as error:  # one bad page must not end the loop
                log.debug("look failed", exc_info=True)
                text = f"our own fault: {type(error).__name__}: {error}"
                self._pod.scrape_failed("fault", text, self._clock())
            interval = self._settings.scrape_interval_seconds
            due += interval * max(1.0, (self._clock() - due) // interval + 1.0)
            due = await self._sleep_until(due)

    async def _sleep_until(self, due: float) -> float:
        """Sleeps in small pieces: a cordon or drain that begins is looked after each second."""
        while (left := due - self._clock()) > 0:
            self.beats["scrape"] = self._clock()
            if self._pod.phase in EMPTYING and left > DRAIN_INTERVAL_S:
                due -= left - DRAIN_INTERVAL_S
            await self._sleep(min(left, DRAIN_INTERVAL_S))
        return due

    async def look(self) -> None:
        """Reads the page, asks for health where that is due, starts and ends the warm-up."""
        await self._scrape()
        if self._health_is_due():
            self._health_at = self._clock()
            patience = LOADING_TIMEOUT_S if self._awaits_health else SERVING_TIMEOUT_S
            self._tell_health(await self._engine.health(patience))
        self._keep_warmup()
        self._keep_relief()

    def _keep_relief(self) -> None:
        """Sheds load where the user allows it, and lets an engine go on that was left paused."""
        folder = Path(self._settings.shared_dir)
        busy = self._abort is not None and not self._abort.done()
        if self._pod.relieve(self._clock()) and not busy:
            self._abort = asyncio.create_task(self._abort_all(folder), name="relief")
        elif not busy and relief_abort.is_marked(folder):
            self._abort = asyncio.create_task(self._resume_all(folder), name="resume")

    async def _abort_all(self, folder: Path) -> None:
        sample = self._pod.observed.sample or EngineSample()
        for control in self._controls():
            how = await relief_abort.abort(sample.engine, control, folder, self._sleep)
            self._pod.relief.aborted(how)

    async def _resume_all(self, folder: Path) -> None:
        for control in self._controls():
            await relief_abort.resume(control, folder, self._sleep)

    def _controls(self) -> list[relief_abort.Control]:
        return [self._control(base) for base in self._settings.engine_urls]

    def _control(self, base: str) -> relief_abort.Control:
        async def call(method: str, path: str, payload: Any = None) -> Answer:
            seconds = relief_abort.TIMEOUT_S
            return await self._engine.control(base, method, path, seconds, payload)

        return call

    async def _scrape(self) -> None:
        try:
            sample = await self._sample()
        except FetchError as error:
            self._pod.scrape_failed(*_failure(error), self._clock(), self._rest())
        else:
            self._pod.scraped(sample, self._clock(), self._rest())

    async def _sample(self) -> EngineSample:
        """The page, without the requests of a warm-up or the canary that it may show."""
        own = self._own_requests
        pages = await self._engine.pages()
        samples = [scan(page, self._settings.engine_type) for page in pages]
        self._examine(pages, samples)
        sample = together(samples)
        return without_own(sample, max(own, self._own_requests))

    def _examine(self, pages: Sequence[bytes], samples: Sequence[EngineSample]) -> None:
        """Looks for what is wrong with the cache of a pod that serves, now and then."""
        health, now = self._pod.health, self._clock()
        if self._pod.phase not in EXAMINED:
            health.forget()
        elif health.is_due(now):
            pairs = zip(samples, pages, strict=True)
            health.take([Look(sample, signs(page)) for sample, page in pairs], now)

    @property
    def _own_requests(self) -> int:
        return self._pod.canary.in_flight + (self._runner.in_flight if self._runner else 0)

    def _rest(self) -> Rest | None:
        """What is left in the engine's connections, where that matters."""
        if self._pod.phase not in CLOSING:
            return NOTHING_LEFT
        return engine_sockets.read_rest(self._settings.all_ports)

    def _health_is_due(self) -> bool:
        """Each time while it decides; else now and then, where asking is harmless and tells.

        In a drain only where the page is silent: any answer is a sign of life.
        """
        if self._awaits_health:
            return True
        sample = self._pod.observed.sample
        if self._pod.observed.silence:
            return sample is None or sample.engine not in GENERATES
        if self._pod.state.drain or sample is None or sample.engine in GENERATES | SHEDS:
            return False
        return self._health_at is None or self._clock() - self._health_at >= HEALTH_S

    @property
    def _awaits_health(self) -> bool:
        return self._pod.phase is Phase.LOADING or self._pod.state.gone

    def _tell_health(self, health: Health) -> None:
        now, pod = self._clock(), self._pod
        if health not in {Health.REFUSED, Health.SILENT}:
            pod.observed.silence = None
        match health:
            case Health.WELL:
                pod.apply(Healthy(), now)
            case Health.NO_ROUTE if pod.observed.sample and not pod.observed.problem:
                pod.apply(Healthy(), now)
            case Health.UNWELL:
                pod.apply(Unhealthy(), now)
            case Health.REFUSED if pod.observed.problem is None:
                pod.apply(Refused(), now)  # the page was still there: it has just gone
            case Health.REFUSED:
                pass  # the page's refusal is counted already
            case _:
                pod.apply(Silent(), now)

    def _keep_warmup(self) -> None:
        """One warm-up for each engine, from the moment it is healthy."""
        state = self._pod.state
        if self._warmup and (state.phase is not Phase.WARMING or self._warmup[0] != state.engine):
            self._warmup[1].cancel()
            self._warmup = None
        if self._warmup is None and state.phase is Phase.WARMING and state.verdict is None:
            task = asyncio.create_task(self._warm_up(state.engine), name="warmup")
            self._warmup = (state.engine, task)

    async def stop(self) -> None:
        """Ends a warm-up under way; an abort is let come to its end: it lets the engine go on."""
        if self._abort:
            await asyncio.gather(self._abort, return_exceptions=True)
        if self._warmup:
            self._warmup[1].cancel()
            await asyncio.gather(self._warmup[1], return_exceptions=True)

    async def _warm_up(self, engine: int) -> None:
        began = self._clock()
        if not self._settings.warmup:
            self._pod.warmed(engine, warmup.Result(verdict=Verdict.OFF), None, began)
            return
        before = self._pod.observed.sample
        try:
            result = await self._run_steps(engine)
            await self._await_counters(before, result.requests)
        except Exception:
            log.exception("warm-up: our own fault")
            result = warmup.Result(
                verdict=_verdict(self._settings), problems=("warm-up: broke off, see the log",)
            )
        now = self._clock()
        self._pod.warmed(engine, result, now - began, now)

    async def _run_steps(self, engine: int) -> warmup.Result:
        models = await self._engine.models()
        model = self._settings.model or served_models.first_model(models)
        prefixes, problems = self._hot_prefixes()
        wishes = Wishes(
            features=self._settings.warmup_features,
            adapters=served_models.adapters(models),
            prefixes=prefixes,
        )
        steps = plan(self._limits(models, model), wishes)
        self._runner = self._runner_for(engine, model, steps)
        result = await self._runner.run(steps)
        return replace(result, problems=(*result.problems, *problems))

    def _hot_prefixes(self) -> tuple[tuple[HotPrefix, ...], tuple[str, ...]]:
        file = self._settings.hot_prefixes_file
        return hot_prefixes.read(Path(file)) if file else ((), ())

    def _limits(self, models: Any, model: str | None) -> Limits:
        settings, sample = self._settings, self._pod.observed.sample or EngineSample()
        config = self._pod.geometry.config
        longest = settings.max_model_length or served_models.longest(models, config, model)
        kv = sample.capacity_tokens
        return Limits(
            max_batched_tokens=settings.max_batched_tokens,
            max_model_length=longest,
            kv_tokens=None if kv is None else int(kv),
            engine=sample.engine,
        )

    def _runner_for(self, engine: int, model: str | None, steps: Sequence[Step]) -> warmup.Runner:
        settings, progress = self._settings, self._pod.warmup
        progress.steps = len(steps)

        def tell(done: int) -> None:
            if progress.engine == engine:
                progress.step = done

        return warmup.Runner(
            engine=self._engine,
            model=model,
            budget=warmup.Budget(
                seconds=settings.warmup_budget_seconds, verdict=_verdict(settings)
            ),
            clock=self._clock,
            sleep=self._sleep,
            dice=random.Random(),  # noqa: S311 - salt, not a secret; seeded by the system
            progress=tell,
        )

    async def _await_counters(self, before: EngineSample | None, requests: int) -> None:
        """Reads the page until it holds the whole warm-up: there a user's numbers begin."""
        for _ in range(LAST_LOOKS):
            try:
                sample = await self._sample()
            except FetchError:
                return  # the scrapes tell
            self._pod.scraped(sample, self._clock())
            if has_counted(before, sample, requests):
                return
            await self._sleep(LAST_LOOK_S)

    async def tick_forever(self) -> None:
        """Lets time pass for drains and problems."""
        while True:
            self._pod.tick(self._clock())
            self.beats["tick"] = self._clock()
            await self._sleep(TICK_S)

    async def read_config_forever(self, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Reads config.json: a URL until it was read, a file again and again."""
        settings, failures = self._settings, 0
        if not (settings.config_file or settings.config_url):
            return
        while True:
            try:
                self._pod.geometry.config = await model_config.load(settings, transport)
            except model_config.ConfigUnavailableError as error:
                self._pod.config_problem = f"{error.reason}: {error}"
                pauses = model_config.Pauses(failures)
                pause = pauses.after(error, random.random())  # noqa: S311 - spreads a fleet
                failures += 1
            else:
                self._pod.config_problem, failures = None, 0
                if settings.config_url:
                    return
                pause = model_config.LOOK_AGAIN_S
            await self._sleep(pause)


def _failure(error: FetchError) -> tuple[str, str]:
    """The kind of a failed look, and its line; only a closed port counts as refused."""
    if isinstance(error, SomeMissingError):
        return PARTLY_REFUSED if error.refused else "partly_missing", str(error)
    if error.kind is not FetchFailure.REFUSED:
        return error.kind.value.replace(" ", "_"), str(error)
    if is_refusal(error):
        return REFUSED, "the engine's port refuses connections"
    return "unreachable", str(error)


def _verdict(settings: Settings) -> Verdict:
    return Verdict.FAILED if settings.warmup_verdict == "Fail" else Verdict.READY
