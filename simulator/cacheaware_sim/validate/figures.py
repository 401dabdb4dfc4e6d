"""What is compared of two runs: mean and percentiles of three times of requests."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, quantiles
from typing import NamedTuple

from cacheaware_sim.validate.request_logs import ServedRequest


class Figures(NamedTuple):
    """Of one time, in seconds; percentiles lie between the values beside them."""

    mean: float
    p50: float
    p90: float
    p99: float


TIMES: Mapping[str, Callable[[ServedRequest], float | None]] = {
    "ttft": lambda one: one.ttft_s,
    "tpot": lambda one: one.tpot_s,
    "e2e": lambda one: one.e2e_s,
}


def figures_of(values: Sequence[float]) -> Figures:
    """Mean and percentiles of at least two values.

    >>> figures_of([1.0, 2.0, 3.0])
    Figures(mean=2.0, p50=2.0, p90=2.8, p99=2.98)
    """
    hundredths = quantiles(values, n=100, method="inclusive")
    return Figures(fmean(values), hundredths[49], hundredths[89], hundredths[98])


def measured(served: Sequence[ServedRequest]) -> dict[str, Figures]:
    """The figures of each of the three times."""
    return {
        name: figures_of([value for one in served if (value := time(one)) is not None])
        for name, time in TIMES.items()
    }


def errors(real: Figures, simulated: Figures) -> Figures:
    """How much larger the simulated figures are, relative to the real ones.

    >>> errors(Figures(1.0, 1.0, 2.0, 4.0), Figures(1.5, 1.0, 1.0, 4.0))
    Figures(mean=0.5, p50=0.0, p90=-0.5, p99=0.0)
    """
    return Figures(*(one / other - 1 for one, other in zip(simulated, real, strict=True)))
