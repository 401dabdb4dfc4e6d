"""What the looks at the engine's page have brought: the newest sample, rates, failures, quiet."""

from collections import Counter, deque
from typing import Final

from cacheaware_sidecar import drain
from cacheaware_sidecar.engines import EngineSample, Rates, rates

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
        self.silent_since: float | None = None
        """Since when every look has gone without an answer."""
        self._window: deque[tuple[float, EngineSample]] = deque()

    def good(self, sample: EngineSample, now: float, unsent: int | None = None) -> None:
        """Takes a page that could be read, and what was left in the engine's connections."""
        self.sample, self.at = sample, now
        self.count += 1
        self.problem = self.silent_since = None
        self.quiet = drain.observe(self.quiet, sample, now, unsent)
        if not self._window or now - self._window[-1][0] >= WINDOW_STEP_S:
            self._window.append((now, sample))
        while len(self._window) > 1 and self._window[1][0] <= now - WINDOW_S:
            self._window.popleft()

    def failed(self, kind: str, problem: str, now: float) -> None:
        """Takes a look that brought no page; the last sample stays, its age tells."""
        self.errors[kind] += 1
        self.problem = problem
        silent = kind == SILENT
        self.silent_since = drain.first(self.silent_since, now) if silent else None
        self.quiet = drain.observe(self.quiet, None, now)

    def forget_engine(self) -> None:
        """Another engine is there, or none: what the last one said is void."""
        self.sample = self.at = None
        self.silent_since = None
        self.quiet = drain.Quiet()
        self.forget_window()

    def forget_window(self) -> None:
        """Lets rates begin anew: the warm-up's own requests are no load."""
        self._window.clear()

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
        return rates(oldest, self.sample, self.at - began)

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
