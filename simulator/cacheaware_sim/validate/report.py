"""The validation as a whole: what is compared, and how far apart it may be."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cacheaware_sim.profiles import PROFILES
from cacheaware_sim.validate.figures import errors, measured
from cacheaware_sim.validate.fit import Fit, fit
from cacheaware_sim.validate.request_logs import ServedRequest, read_request_log
from cacheaware_sim.validate.static_table import TABLE, simulated

FIGURES = ("mean", "p50", "p90", "p99")
LOG = "requests.jsonl"


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """A logged run of a real engine."""

    folder: str
    profile: str
    short_of_cache: bool
    within: frozenset[str]
    """The figures that must be within `TOLERANCE`; the others are shown."""


RUNS = (
    LoggedRun(
        "RTXPRO6000_Llama-3.1-8B",
        "llama-3.1-8b-rtxpro6000",
        short_of_cache=False,
        within=frozenset({"mean", "p50", "p90"}),
    ),
    LoggedRun(
        "RTX4090_Llama-3.1-8B",
        "llama-3.1-8b-rtx4090",
        short_of_cache=True,
        within=frozenset({"mean", "p90"}),
    ),
)
TOLERANCE = 0.05
STATIC_TOLERANCE = 0.2
"""Of the published table's inter-token latency; its time to first token is shown."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: real, simulated, and how much larger the simulated one is."""

    run: str
    time: str
    figure: str
    unit: str
    real: float
    simulated: float
    error: float
    tolerance: float | None
    """None where the figure is only shown."""

    @property
    def ok(self) -> bool:
        """Whether it is within the tolerance, where there is one."""
        return self.tolerance is None or abs(self.error) <= self.tolerance


@dataclass(frozen=True, slots=True)
class FittedRun:
    """A logged run, what was fitted to its first half, and the second half compared."""

    run: LoggedRun
    fit: Fit
    rows: tuple[Row, ...]

    def as_json(self) -> dict[str, Any]:
        """What was fitted."""
        return {
            "run": self.run.folder,
            "coefficients": asdict(self.fit.cost),
            "first_prompt_stall_s": self.fit.stall_s,
            "shared_blocks": self.fit.shared,
            "objective": self.fit.objective,
            "replays": self.fit.replays,
            "preemptions": self.fit.preemptions,
        }


def validated(run: LoggedRun, folder: Path) -> FittedRun:
    """Fit a run's first half, and compare the second.

    Args:
        run: Which one.
        folder: The folder that holds its folder.

    Raises:
        TraceError: One line: the log is not there or can't be used.
    """
    logged = read_request_log(folder / run.folder / LOG)
    fitted = fit(PROFILES[run.profile], logged, short_of_cache=run.short_of_cache)
    half = len(logged) // 2
    return FittedRun(run, fitted, tuple(_rows(run, logged[half:], fitted.served[half:])))


def _rows(
    run: LoggedRun, logged: tuple[ServedRequest, ...], served: tuple[ServedRequest, ...]
) -> Iterator[Row]:
    real, model = measured(logged), measured(served)
    for time, figures in real.items():
        unit, factor = ("ms", 1e3) if time == "tpot" else ("s", 1.0)
        apart = errors(figures, model[time])
        for index, figure in enumerate(FIGURES):
            yield Row(
                run=run.folder,
                time=time,
                figure=figure,
                unit=unit,
                real=figures[index] * factor,
                simulated=model[time][index] * factor,
                error=apart[index],
                tolerance=TOLERANCE if figure in run.within else None,
            )


def static_rows() -> tuple[Row, ...]:
    """The published table of two static replicas, compared."""
    rows = []
    for published in TABLE:
        model = simulated(published)
        for time, unit, real, ours, tolerance in (
            ("itl", "ms", published.itl_ms, model.itl_ms, STATIC_TOLERANCE),
            ("ttft", "s", published.ttft_s, model.ttft_s, None),
        ):
            rows.append(
                Row(
                    run=published.name,
                    time=time,
                    figure="p99",
                    unit=unit,
                    real=real,
                    simulated=ours,
                    error=ours / real - 1,
                    tolerance=tolerance,
                )
            )
    return tuple(rows)
