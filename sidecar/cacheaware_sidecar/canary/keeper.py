"""What the canary has found out about one pod's engine: its last run, its findings.

No loop and no network; `canary.watch` asks. A baseline that the user names is never replaced; where
none is named, the pod's own first runs are it.
"""

import logging
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Final

from cacheaware_sidecar.canary.ask import Asked, Question
from cacheaware_sidecar.canary.baseline import (
    REPEATS,
    Baseline,
    NotComparableError,
    check_identity,
)
from cacheaware_sidecar.canary.baseline_file import BaselineFile
from cacheaware_sidecar.canary.compare import CONFIRM, Comparison, compare, is_broken
from cacheaware_sidecar.canary.completion import PROMPT
from cacheaware_sidecar.canary.finding import drift, told
from cacheaware_sidecar.canary.learned import LearnedBaseline
from cacheaware_sidecar.health import Symptom
from cacheaware_sidecar.settings import Settings
from cacheaware_sidecar.state import CanaryState

FILE: Final = "canary.json"
SOON_S: Final = 60.0
"""Between runs while a baseline is learned, and while a drift is not yet confirmed."""
ANSWERED: Final = "answered"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
log = logging.getLogger(__name__)


class Verdict(StrEnum):
    """What the last run came to."""

    LEARNING = "Learning"
    SAME = "Same"
    DRIFTED = "Drifted"
    NOT_COMPARABLE = "NotComparable"
    """The baseline is of another model, engine version or tokeniser."""
    NOT_APPLICABLE = "NotApplicable"
    """The engine gives no log probabilities, or the baseline can't be read."""


class Canary:
    """The canary's memory; without `CACHEAWARE_CANARY_SECONDS` it is off."""

    def __init__(self, settings: Settings) -> None:
        self.seconds = settings.canary_seconds
        self._file = BaselineFile(Path(settings.canary_file)) if settings.canary_file else None
        self._learned = LearnedBaseline(Path(settings.shared_dir) / FILE)
        if self.seconds and self._file is None:
            self._learned.restore()
        self.in_flight = 0
        """Requests that the engine is busy with because of us."""
        self.results: Counter[str] = Counter()
        """Runs by what came of them."""
        self.verdict: Verdict | None = None
        self.reason: str | None = None
        """Why the verdict is none of Same and Drifted, or why the last run brought nothing."""
        self.comparison: Comparison | None = None
        self.drifted_runs = 0
        """Drifted runs on end."""
        self._asked_at: float | None = None

    @property
    def pause_s(self) -> float:
        """How long until the next run, without its jitter."""
        is_soon = self.verdict is Verdict.LEARNING or 0 < self.drifted_runs < CONFIRM
        return min(SOON_S, self.seconds or SOON_S) if is_soon else float(self.seconds or 0)

    def question(self, model: str | None, engine: str | None) -> Question:
        """What to ask now.

        Raises:
            BaselineError: The baseline that the user names can't be used.
        """
        baseline = self._baseline()
        if baseline is None:
            return Question(prompt=PROMPT, model=model, engine=engine)
        return Question(
            prompt=baseline.prompt,
            ways=(baseline.way,),
            model=model,
            preferred=baseline.identity.model,
            engine=engine,
        )

    def take(self, asked: Asked, now: float) -> None:
        """Takes a run: compares it, or learns from it.

        Raises:
            BaselineError: The baseline that the user names can't be used.
        """
        self.results[ANSWERED] += 1
        self._asked_at = now
        baseline = self._baseline()
        if baseline is None or (self._file is None and self._learned.wants(asked)):
            self._learn(asked)
            return
        try:
            check_identity(baseline.identity, asked.identity)
            comparison = compare(baseline, asked.run)
        except NotComparableError as error:
            self._void(Verdict.NOT_COMPARABLE, str(error))
            return
        self.comparison, self.reason = comparison, None
        self.verdict = Verdict.DRIFTED if comparison.drifted else Verdict.SAME
        self.drifted_runs = self.drifted_runs + 1 if comparison.drifted else 0
        if self.drifted_runs:
            log.warning("canary: run %d that has drifted: %s", self.drifted_runs, told(comparison))

    def does_not_apply(self, reason: str, now: float) -> None:
        """Takes that the engine can't be asked, or that there is no baseline to hold it against."""
        self._asked_at = now
        self._void(Verdict.NOT_APPLICABLE, reason)

    def failed(self, reason: str) -> None:
        """Takes a run without an answer: it says nothing about the model."""
        self.results[FAILED] += 1
        self.reason = f"the last run failed: {reason}"

    def skipped(self, reason: str) -> None:
        """Takes a run that was left out."""
        self.results[SKIPPED] += 1
        self.reason = f"the last run was skipped: {reason}"

    def forget_engine(self) -> None:
        """Another engine is there: what the last one answered is void, the baseline is not."""
        self.verdict = self.reason = self.comparison = self._asked_at = None
        self.drifted_runs = 0

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps the canary from saying anything."""
        if self.verdict in {Verdict.NOT_COMPARABLE, Verdict.NOT_APPLICABLE}:
            return (f"canary: {self.verdict}: {self.reason}",)
        return ()

    @property
    def findings(self) -> tuple[Symptom, ...]:
        """A drift that is confirmed."""
        found = drift(self.comparison, self.drifted_runs) if self.comparison else None
        return (found,) if found else ()

    def state(self, now: float) -> CanaryState | None:
        """What `GET /v1/state` tells; None where the canary is off."""
        if not self.seconds:
            return None
        found = self.comparison or Comparison(tokens=0)
        compared = self.comparison is not None
        return CanaryState(
            verdict=self.verdict.value if self.verdict else None,
            reason=self.reason,
            baseline="file" if self._file else "learned" if self._learned.is_complete else None,
            age_s=None if self._asked_at is None else max(0.0, round(now - self._asked_at, 3)),
            answered=self.results[ANSWERED],
            failed=self.results[FAILED],
            skipped=self.results[SKIPPED],
            tokens=found.tokens if compared else None,
            difference_nats=found.mean,
            tolerance_nats=found.tolerance,
            largest_nats=found.largest,
            changed_ratio=found.changed if compared else None,
            first_changed=found.first_changed,
            drifted_runs=self.drifted_runs,
        )

    def _void(self, verdict: Verdict, reason: str) -> None:
        self.verdict, self.reason, self.comparison, self.drifted_runs = verdict, reason, None, 0

    def _baseline(self) -> Baseline | None:
        """The baseline to compare with; None before the pod's own first run."""
        return self._file.read() if self._file else self._learned.baseline

    def _learn(self, asked: Asked) -> None:
        if is_broken(asked.run):
            self._void(Verdict.NOT_APPLICABLE, "a log probability is no number: nothing is learned")
            return
        count = len(self._learned.add(asked).runs)
        if self._learned.is_complete:
            self._void(Verdict.SAME, "the baseline is learned")
        else:
            self._void(Verdict.LEARNING, f"{count} of {REPEATS} runs of the baseline")
