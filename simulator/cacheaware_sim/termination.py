"""What an engine does on SIGTERM: the four habits seen on real engines."""

import math
from dataclasses import dataclass
from enum import StrEnum


class Habit(StrEnum):
    """How an engine ends."""

    ABORT = "abort"
    """vLLM: fails everything at once; with a shutdown timeout it is like `finish` for that long."""
    FINISH = "finish"
    """Finishes what runs and waits, fails newcomers with 500, and /health stays 200."""
    CLOSE = "close"
    """Closes its port and finishes (uvicorn's own way, `transformers serve`)."""
    NEVER = "never"
    """Goes on as if nothing had been said while requests run (SGLang, llama.cpp)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """A habit and its time limit."""

    habit: Habit = Habit.ABORT
    timeout_s: float = 0.0
    """vLLM's `--shutdown-timeout`. `finish` and `close`: 0 is no limit; `never` ignores it."""

    @property
    def admits(self) -> bool:
        """Whether requests are still admitted after SIGTERM."""
        return self.habit is Habit.NEVER

    @property
    def listens(self) -> bool:
        """Whether the port stays open after SIGTERM."""
        return self.habit is not Habit.CLOSE

    @property
    def patience_s(self) -> float:
        """Seconds after SIGTERM until whatever still runs is aborted; infinity for never."""
        if self.habit is Habit.NEVER or (self.habit is not Habit.ABORT and not self.timeout_s):
            return math.inf
        return self.timeout_s
