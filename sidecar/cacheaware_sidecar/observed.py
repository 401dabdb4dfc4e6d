"""What the looks at the engine's page have brought: the newest sample, rates, failures, quiet."""

from collections import Counter, deque
from typing import Final

from cacheaware_sidecar import drain
from cacheaware_sidecar.engine_sockets import NOTHING_LEFT, Rest
from cacheaware_sidecar.engines import EngineSample, Own, Rates, rates, since, with_own
from cacheaware_sidecar.state import Latency

WINDOW_S: Final = 60.0
WINDOW_STEP_S: Final = 5.0
"""One sample of each 5 s is kept: a minute of them all would cost memory for nothing."""
STALE_INTERVALS: Final = 3
SILENT: Final = "timed_out"
"""The kind of failure that says: the engine did not answer."""


class Observed:
    """The engine as its page shows it."""

    def __init__(self) -> None:
        self.sample: EngineSample | None = None
        self.at: float | None = None
        self.count = 0
        """Good pages; the sequence number of the newest."""
        self.quiet = drain.Quiet()
        self.errors: Counter[str] = Counter()
        """Looks that failed, by kind."""
        self.problem: str | None = None
        """Why the last look failed."""
        self.silence: drain.Silence | None = None
        """Of a pod that drains; None while its engine gives signs of life."""
        self.rest: Rest | None = NOTHING_LEFT
        """What was left in the engine's connections; None where that can't be read."""
        self.zero = Latency()
        """The histograms when the pod began to serve: what they hold is the warm-up's."""
        self.has_zero = False
        self._window: deque[tuple[float, EngineSample]] = deque()
        self._own: deque[tuple[float, Own]] = deque()

    def good(self, sample: EngineSample, now: float, rest: Rest | None = NOTHING_LEFT) -> None:
        """Takes a page that could be read, and what was left in the engine's connections."""
        self.sample, self.at = sample, now
        self.count += 1
        self.problem = self.silence = None
        self.rest = rest
        self.quiet = drain.observe(self.quiet, sample, now, rest)
        if not self._window or now - self._window[-1][0] >= WINDOW_STEP_S:
            self._window.append((now, sample))
        while len(self._window) > 1 and self._window[1][0] <= now - WINDOW_S:
            self._window.popleft()

    def set_zero(self, zero: Latency | None = None) -> None:
        """Lets the histograms begin: from the newest page on, or from where they did before."""
        if zero is not None or self.sample is not None:
            self.zero = zero or _histograms(self.sample or EngineSample())
            self.has_zero = True

    def latency(self) -> Latency:
        """The histograms without what the warm-up added."""
        zero, now = self.zero, _histograms(self.sample or EngineSample())
        return Latency(
            ttft_s=since(zero.ttft_s, now.ttft_s),
            tpot_s=since(zero.tpot_s, now.tpot_s),
            e2e_s=since(zero.e2e_s, now.e2e_s),
        )

    def failed(self, kind: str, problem: str, now: float, rest: Rest | None = NOTHING_LEFT) -> None:
        """Takes a look that brought no page; the last sample stays, its age tells."""
        self.errors[kind] += 1
        self.problem = problem
        self.silence = drain.silent(self.silence, rest, now) if kind == SILENT else None
        self.rest = rest
        self.quiet = drain.observe(self.quiet, None, now)

    def forget_engine(self) -> None:
        """Another engine is there, or none: what the last one said is void."""
        self.sample = self.at = None
        self.silence = None
        self.quiet = drain.Quiet()
        self.zero, self.has_zero = Latency(), False
        self.forget_window()

    def begin(self, answered: int) -> None:
        """Lets rates and histograms begin at the end of a warm-up: its requests are no load.

        They begin with the newest page, or where that does not count all the `answered` requests of
        the warm-up yet, with the next.
        """
        counted = self.sample.requests if self.sample else None
        if answered and (counted is None or counted < answered):
            self._window.clear()
            self.has_zero = False
        else:
            self.forget_window()

    def forget_window(self) -> None:
        """Lets rates begin with the newest page."""
        self._window.clear()
        if self.sample is not None and self.at is not None:
            self._window.append((self.at, self.sample))

    def age(self, now: float) -> float | None:
        """Seconds since the newest good page."""
        return None if self.at is None else now - self.at

    def is_fresh(self, interval_s: float, now: float) -> bool:
        """Whether the newest page speaks of now."""
        age = self.age(now)
        return age is not None and age <= STALE_INTERVALS * max(interval_s, 1.0)

    def rates(self, now: float) -> Rates:
        """Over the last minute; unknown where no page of that time is left."""
        if not self._window or self.sample is None or self.at is None or now - self.at > WINDOW_S:
            return Rates()
        began, oldest = self._window[0]
        own = sum((each for at, each in self._own if began < at <= self.at), Own())
        return rates(with_own(oldest, self.sample, own), self.sample, self.at - began)

    def add_own(self, own: Own, now: float) -> None:
        """Takes what requests of our own have added to the counters: they are no load."""
        self._own.append((now, own))
        while self._own[0][0] <= now - 2 * WINDOW_S:
            self._own.popleft()

    def load_line(self) -> str:
        """What the engine has to do, in words."""
        if self.sample is None:
            return "requests unknown"
        counts = self.sample.running, self.sample.waiting
        running, waiting = ("?" if count is None else f"{count:g}" for count in counts)
        return f"{running} running, {waiting} waiting"

    def load(self) -> float | None:
        """Requests running and waiting; None where either is unknown."""
        sample = self.sample
        if sample is None or sample.running is None or sample.waiting is None:
            return None
        return sample.running + sample.waiting


def _histograms(sample: EngineSample) -> Latency:
    return Latency(ttft_s=sample.ttft, tpot_s=sample.tpot, e2e_s=sample.e2e)
