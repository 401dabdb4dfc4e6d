"""A canary's baseline that a pod learns from its own first runs.

It is kept in the shared folder, so that an engine that is restarted in the same pod is held against
what it was before.
"""

import logging
from dataclasses import replace
from pathlib import Path

from cacheaware_sidecar.canary.ask import Asked
from cacheaware_sidecar.canary.baseline import (
    REPEATS,
    Baseline,
    NotComparableError,
    check_alike,
    check_identity,
)
from cacheaware_sidecar.canary.baseline_json import LARGEST, as_text, from_text
from cacheaware_sidecar.canary.completion import PROMPT
from cacheaware_sidecar.canary.logit_step import step_of
from cacheaware_sidecar.small_files import read_small, write_atomically

log = logging.getLogger(__name__)


class LearnedBaseline:
    """The runs up to now, in memory and in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.baseline: Baseline | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it has all its repeats."""
        return self.baseline is not None and len(self.baseline.runs) >= REPEATS

    def restore(self) -> None:
        """Takes what this pod has learned before; what can't be read is not trusted."""
        try:
            self.baseline = from_text(read_small(self._path, LARGEST).decode(), fewest=1)
        except (OSError, ValueError):
            self.baseline = None

    def wants(self, asked: Asked) -> bool:
        """Whether a run belongs to the baseline; one of another model begins it anew."""
        if self.baseline is not None:
            try:
                check_identity(self.baseline.identity, asked.identity)
                check_alike(self.baseline, asked.run)
            except NotComparableError as error:
                log.warning("canary: the baseline is learned anew: %s", error)
                self.baseline = None
        return not self.is_complete

    def add(self, asked: Asked) -> Baseline:
        """The baseline with one more run; it goes on without its file where that can't be saved."""
        before = self.baseline or Baseline(
            identity=asked.identity,
            prompt=PROMPT,
            way=asked.way,
            runs=(),
            step=step_of(asked.run),
        )
        runs = (*before.runs, asked.run)
        self.baseline = replace(before, identity=asked.identity, way=asked.way, runs=runs)
        if self.is_complete:
            log.info("canary: the baseline is learned from %d runs", len(runs))
        try:
            write_atomically(self._path, as_text(self.baseline))
        except OSError as error:
            log.warning("canary: the baseline can't be saved: %s", error.strerror)
        return self.baseline
