"""What the canary has found out about one pod's engine: its baseline, its last run, its findings.

No loop and no network; `canary.watch` asks. A baseline that the user names is never replaced.
Where none is named, the pod's own first runs are it: they are kept in the shared folder, so that
an engine that is restarted in the same pod is held against what it was before.
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
    Identity,
    NotComparableError,
    check_alike,
    check_identity,
)
from cacheaware_sidecar.canary.baseline_json import LARGEST, BaselineError, as_text, from_text
from cacheaware_sidecar.canary.compare import CONFIRM, Comparison, compare, is_broken
from cacheaware_sidecar.canary.completion import PROMPT, Way
from cacheaware_sidecar.canary.finding import drift, told
from cacheaware_sidecar.canary.logit_step import step_of
from cacheaware_sidecar.health import Symptom
from cacheaware_sidecar.settings import Settings
from cacheaware_sidecar.small_files import read_small, write_atomically
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
        self._file = Path(settings.canary_file) if settings.canary_file else None
        self._kept = Path(settings.shared_dir) / FILE
        self._read: tuple[bytes, Baseline] | None = None
        self._learned = self._restore() if self.seconds and self._file is None else None
        self.in_flight = 0
        """Requests that the engine is busy with because of us."""
        self.results: Counter[str] = Counter()
        """Runs by what came of them."""
        self.verdict: Verdict | None = None
        self.reason: str | None = None
        """Why the verdict is none of Same and Drifted, or why the last run brought nothing."""
        self.comparison: Comparison | None = None
        self.in_row = 0
        """Drifted runs on end."""
        self._at: float | None = None

    @property
    def pause_s(self) -> float:
        """How long until the next run, without its jitter."""
        is_soon = self.verdict is Verdict.LEARNING or 0 < self.in_row < CONFIRM
        return min(SOON_S, self.seconds or SOON_S) if is_soon else float(self.seconds or 0)

    def question(self, model: str | None, engine: str | None) -> Question:
        """What to ask now.

        Raises:
            BaselineError: The baseline that the user names can't be used.
        """
        if self._file is None and self._learned is None:
            return Question(prompt=PROMPT, model=model, engine=engine)
        baseline = self._baseline()
        return Question(
            prompt=baseline.prompt,
            ways=(baseline.way,),
            model=model,
            preferred=baseline.identity.model,
            engine=engine,
        )

    def took(self, asked: Asked, now: float) -> None:
        """Takes a run: compares it, or learns from it.

        Raises:
            BaselineError: The baseline that the user names can't be used.
        """
        self.results[ANSWERED] += 1
        self._at = now
        if self._file is None and self._must_learn(asked):
            self._learn(asked)
            return
        baseline = self._baseline()
        try:
            check_identity(baseline.identity, asked.identity)
            comparison = compare(baseline, asked.run)
        except NotComparableError as error:
            self._void(Verdict.NOT_COMPARABLE, str(error))
            return
        self.comparison, self.reason = comparison, None
        self.verdict = Verdict.DRIFTED if comparison.drifted else Verdict.SAME
        self.in_row = self.in_row + 1 if comparison.drifted else 0
        if self.in_row:
            log.warning("canary: run %d that has drifted: %s", self.in_row, told(comparison))

    def does_not_apply(self, reason: str, now: float) -> None:
        """Takes that the engine can't be asked, or that there is no baseline to hold it against."""
        self._at = now
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
        self.verdict = self.reason = self.comparison = self._at = None
        self.in_row = 0

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps the canary from saying anything."""
        if self.verdict in {Verdict.NOT_COMPARABLE, Verdict.NOT_APPLICABLE}:
            return (f"canary: {self.verdict}: {self.reason}",)
        return ()

    @property
    def findings(self) -> tuple[Symptom, ...]:
        """A drift that is confirmed."""
        found = drift(self.comparison, self.in_row) if self.comparison else None
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
            baseline="file" if self._file else "learned" if self._is_learned else None,
            age_s=None if self._at is None else max(0.0, round(now - self._at, 3)),
            answered=self.results[ANSWERED],
            failed=self.results[FAILED],
            skipped=self.results[SKIPPED],
            tokens=found.tokens if compared else None,
            difference_nats=found.mean,
            tolerance_nats=found.tolerance,
            largest_nats=found.largest,
            changed_ratio=found.changed if compared else None,
            first_changed=found.first_changed,
            drifted_runs=self.in_row,
        )

    @property
    def _is_learned(self) -> bool:
        return self._learned is not None and len(self._learned.runs) >= REPEATS

    def _void(self, verdict: Verdict, reason: str) -> None:
        self.verdict, self.reason, self.comparison, self.in_row = verdict, reason, None, 0

    def _baseline(self) -> Baseline:
        """The baseline to compare with, from the user's file as it is now."""
        if self._file is None:
            return self._learned or Baseline(
                identity=Identity(), prompt=PROMPT, way=Way.ECHO, runs=()
            )
        try:
            data = read_small(self._file, LARGEST)
            if self._read is None or self._read[0] != data:
                self._read = data, from_text(data.decode())
        except OSError as error:
            raise BaselineError(f"{self._file} can't be read: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise BaselineError(f"{self._file}: it is no text; allowed: UTF-8") from None
        except BaselineError as error:
            raise BaselineError(f"{self._file}: {error}") from None
        return self._read[1]

    def _must_learn(self, asked: Asked) -> bool:
        """Whether a run belongs to the baseline; one of another model begins it anew."""
        if self._learned is None:
            return True
        try:
            check_identity(self._learned.identity, asked.identity)
            check_alike(self._learned, asked.run)
        except NotComparableError as error:
            log.warning("canary: the baseline is learned anew: %s", error)
            self._learned = None
            return True
        return not self._is_learned

    def _learn(self, asked: Asked) -> None:
        if is_broken(asked.run):
            self._void(Verdict.NOT_APPLICABLE, "a log probability is no number: nothing is learned")
            return
        runs = (*(self._learned.runs if self._learned else ()), asked.run)
        prompt = self._learned.prompt if self._learned else PROMPT
        self._learned = Baseline(
            identity=asked.identity,
            prompt=prompt,
            way=asked.way,
            runs=runs,
            step=self._learned.step if self._learned else step_of(asked.run),
        )
        self._void(Verdict.LEARNING, f"{len(runs)} of {REPEATS} runs of the baseline")
        if self._is_learned:
            self._void(Verdict.SAME, "the baseline is learned")
            log.info("canary: the baseline is learned from %d runs", len(runs))
        try:
            write_atomically(self._kept, as_text(self._learned))
        except OSError as error:
            log.warning("canary: the baseline can't be saved: %s", error.strerror)

    def _restore(self) -> Baseline | None:
        """What this pod has learned before; what can't be read is not trusted."""
        try:
            return from_text(read_small(self._kept, LARGEST).decode(), fewest=1)
        except (OSError, ValueError):
            return None
