"""What a healthy model looked like, kept as JSON, and how far another run is from it.

There is no fixed band for attention entropy or norms that fits two models: the baseline is learned
from the user's own healthy one, on the same canary.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SCHEMA = 1


class BaselineError(Exception):
    """The baseline can't be used, in one line."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Numbers of one run.

    Attributes:
        probe: `attention`, `norms` or `precision`.
        setup: What must be equal for two runs to be compared (canary, tokens, band).
        values: Each number by its name; NaN and Inf are kept as such.
    """

    probe: str
    setup: Mapping[str, Any]
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Drift:
    """One number that moved; `healthy` or `now` is None where it is not there."""

    name: str
    healthy: float | None
    now: float | None

    @property
    def size(self) -> float:
        """How far; infinite where one of both is missing or no number."""
        if self.healthy is None or self.now is None:
            return math.inf
        gap = abs(self.now - self.healthy)
        return gap if math.isfinite(gap) else math.inf


def as_text(run: Measured) -> str:
    """A baseline to store: JSON, which holds no NaN, so those are strings."""
    values = {
        name: one if math.isfinite(one) else str(one) for name, one in sorted(run.values.items())
    }
    told = {"schema": SCHEMA, "probe": run.probe, "setup": dict(run.setup), "values": values}
    return json.dumps(told, indent=1, allow_nan=False) + "\n"


def from_text(text: str) -> Measured:
    """A baseline that was stored.

    Raises:
        BaselineError: it is none.
    """
    try:
        told = json.loads(text)
        if told["schema"] != SCHEMA:
            raise BaselineError(f"schema is {told['schema']!r}: allowed is {SCHEMA}")
        values = {str(name): float(one) for name, one in told["values"].items()}
        return Measured(str(told["probe"]), dict(told["setup"]), values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BaselineError(f"is no baseline: {type(error).__name__}: {error}") from error


def drifts(healthy: Measured, now: Measured) -> list[Drift]:
    """Every number of both runs, the largest drift first.

    Raises:
        BaselineError: they were not measured alike.
    """
    if healthy.probe != now.probe:
        raise BaselineError(f"it is one of probe {healthy.probe}: needed is {now.probe}")
    for name in sorted({*healthy.setup, *now.setup}):
        was, one = healthy.setup.get(name), now.setup.get(name)
        if was != one:
            raise BaselineError(f"it was measured with {name} {was!r}, now it is {one!r}")
    names = sorted({*healthy.values, *now.values})
    told = [Drift(name, healthy.values.get(name), now.values.get(name)) for name in names]
    same = {one.name for one in told if alike(one)}
    return sorted((one for one in told if one.name not in same), key=lambda one: -one.size)


def alike(one: Drift) -> bool:
    """Whether nothing moved; NaN then and now is no news."""
    if one.healthy is None or one.now is None:
        return False
    return one.healthy == one.now or (math.isnan(one.healthy) and math.isnan(one.now))
