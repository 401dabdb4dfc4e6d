"""Runs of a healthy model, and what a new run must share with them to be compared. Pure."""

from dataclasses import dataclass
from typing import Final

from cacheaware_sidecar.canary.completion import Run, Way, texts
from cacheaware_sidecar.canary.logit_step import resolution

FEWEST: Final = 4
"""Repeats of a baseline: with three, Student's t is 22 and hardly anything would be drift."""
REPEATS: Final = 8
MOST: Final = 16
"""As many as Student's t is known for in `compare`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What answered; None is not told."""

    model: str | None = None
    engine: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Runs of a healthy model: all of one way, with the same prompt tokens."""

    identity: Identity
    prompt: str
    way: Way
    runs: tuple[Run, ...]
    step: float | None = None
    """Of the engine's logits, in nats; None where none shows."""

    @property
    def resolution(self) -> float:
        """By how much rounding alone may move a log probability."""
        return resolution(self.step)


class NotComparableError(Exception):
    """A run and a baseline are not of one thing; one line says why."""


def check_identity(healthy: Identity, now: Identity) -> None:
    """Nothing where both may be the same; what either does not tell is no difference.

    Raises:
        NotComparableError: The model's name, the engine or its version is another.
    """
    for name in ("model", "engine", "version"):
        was, one = getattr(healthy, name), getattr(now, name)
        if None not in {was, one} and was != one:
            raise NotComparableError(f"the baseline is of {name} {was}, this is {one}")


def check_alike(baseline: Baseline, run: Run) -> None:
    """Nothing where a run's tokens can be held against those of the baseline.

    Raises:
        NotComparableError: The prompt was cut into other tokens.
    """
    if not baseline.runs:
        return
    healthy, now = texts(baseline.runs[0].prompt), texts(run.prompt)
    if bool(healthy) is not bool(now):
        raise NotComparableError("only one of both has log probabilities of the prompt's tokens")
    if healthy != now:
        raise NotComparableError(
            f"the prompt is {len(now)} tokens, in the baseline {len(healthy)} others:"
            " another tokeniser"
        )
