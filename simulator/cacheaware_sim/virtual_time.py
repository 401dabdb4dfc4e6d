"""Drives the engine model in virtual time: from one event to the next, not iteration by iteration.

A fleet of forty engines makes five million iterations in an hour, and in most of them every request
gets one token and nothing else happens. Those are passed in one go ("coasting"); what is measured
is the same as if each had been made.
"""

from collections.abc import Collection
from dataclasses import replace

from cacheaware_sim.coasting import Coast
from cacheaware_sim.engine import Engine
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.request import Request
from cacheaware_sim.stats import EngineSnapshot
from cacheaware_sim.step_result import StepResult


class VirtualTimeEngine:
    """An engine whose driver jumps from one moment to the next that matters.

    The driver calls `advance(wake_at)` at `wake_at`, and looks at `wake_at` again after each call.
    All calls come in the order of time, and none after `wake_at` before `advance`. What arrives at
    the very moment at which an iteration ends is not yet in the next one.

    >>> from cacheaware_sim.engine_config import EngineConfig
    >>> cost = IterationCost(c0_ms=250, c1_ms_per_seq=0, c2_ms_per_ktok=0, a1_ms_per_ktok=0,
    ...                      a2_ms_per_mtok2=0)
    >>> engine = VirtualTimeEngine(Engine(EngineConfig(cost=cost, num_blocks=512)))
    >>> engine.submit(Request(1, prompt_tokens=100, output_tokens=9), now=2.0)
    >>> while (now := engine.wake_at) is not None:
    ...     result = engine.advance(now)
    ...     print(now, len(result.first_tokens), len(result.finished))
    2.0 0 0
    2.25 1 0
    4.25 0 1
    """

    __slots__ = ("_coast", "engine", "wake_at")

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.wake_at: float | None = None
        """When `advance` is due: a request is admitted, gets its first token, ends, or is cut."""
        self._coast: Coast | None = None

    def submit(self, request: Request, now: float) -> None:
        """Queue a request; raises what `Engine.submit` raises."""
        self._catch_up(now)
        engine = self.engine
        engine.submit(request, now)
        if self._coast is None:
            if self.wake_at is None:
                self.wake_at = now
        elif len(engine.waiting) == 1 and len(engine.running) < engine.config.max_num_seqs:
            self._break()

    def abort(self, request: Request, now: float, outcome: str = "abort") -> bool:
        """Drop a request, whatever it is doing; False if it had ended already."""
        self._catch_up(now)
        dropped = self.engine.abort(request, now, outcome)
        if dropped:
            self._break()
        return dropped

    def terminate(self, now: float) -> list[Request]:
        """SIGTERM: act by the engine's habit; the requests that were cut at once."""
        self._catch_up(now)
        cut = self.engine.terminate(now)
        self._break() if cut else self._set_wake()
        return cut

    def abort_all(self, now: float) -> list[Request]:
        """Drop everything; the requests that were cut."""
        self._catch_up(now)
        cut = self.engine.abort_all(now)
        self._break()
        return cut

    def set_cost(self, cost: IterationCost, now: float) -> None:
        """Make the engine faster or slower from the next iteration on."""
        self._catch_up(now)
        self.engine.config = replace(self.engine.config, cost=cost)
        self._break()

    def advance(self, now: float) -> StepResult:
        """All that happens until `now`."""
        result = StepResult()
        while self.wake_at is not None and self.wake_at <= now:
            self._wake(self.wake_at, result)
        self._catch_up(now)
        return result

    def generated(self, request: Request, now: float) -> int:
        """Output tokens of a request by now."""
        self._catch_up(now)
        return self.engine.generated(request)

    def snapshot(self, now: float, histograms: Collection[str] | None = None) -> EngineSnapshot:
        """What a scrape would show now: the state at the end of the last iteration.

        Args:
            now: At most `wake_at`.
            histograms: The only ones that are wanted; None is all.
        """
        self._catch_up(now)
        return self.engine.snapshot(histograms)

    def _wake(self, now: float, result: StepResult) -> None:
        coast, engine = self._coast, self.engine
        if coast is not None:
            if engine.abort_at <= now < coast.end(coast.iterations):
                self._catch_up(now)
                result.aborted += engine.abort_all(now)
                self._break()
                return
            if coast.iterations > 1:
                self._drop(coast, coast.iterations - 1)
        duration = engine.step(now, result).duration_s
        if duration is None:
            self._coast = self.wake_at = None
            return
        iterations = engine.uneventful()
        growth_s = engine.growth_s() if iterations > 1 else 0.0
        self._coast = Coast(now, duration, growth_s, iterations)
        self._set_wake()

    def _catch_up(self, now: float) -> None:
        """Account for the iterations that have ended by now."""
        coast = self._coast
        if coast is not None and (ended := coast.ended(now)):
            self._drop(coast, ended)

    def _drop(self, coast: Coast, iterations: int) -> None:
        first_s = coast.first_s
        coast.drop(iterations)
        self.engine.coast(iterations, first_s, coast.growth_s, coast.began)

    def _break(self) -> None:
        """Let something happen at the end of the iteration that runs."""
        if self._coast is not None:
            self._coast.iterations = 1
            self._set_wake()

    def _set_wake(self) -> None:
        coast, engine = self._coast, self.engine
        if coast is not None:
            self.wake_at = coast.end(coast.iterations)
            if engine.abort_at < self.wake_at and (engine.running or engine.waiting):
                self.wake_at = engine.abort_at
