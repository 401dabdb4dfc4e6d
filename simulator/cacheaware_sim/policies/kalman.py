"""A Kalman filter for a level with a linear trend, one observation per step."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Noise:
    """Variances."""

    level: float
    trend: float
    measured: float


PLANNER_NOISE = Noise(level=1.0, trend=0.1, measured=10.0)
"""Dynamo's defaults."""


@dataclass(frozen=True, slots=True)
class Belief:
    """Level and trend per step, with the three different entries of their covariance."""

    level: float
    trend: float
    level_variance: float
    covariance: float
    trend_variance: float


def first(value: float) -> Belief:
    """What a first observation is taken for: the level, with no trend and great doubt."""
    return Belief(value, 0.0, 1000.0, 0.0, 1000.0)


def ahead(belief: Belief, noise: Noise) -> Belief:
    """One step later."""
    crossed = belief.covariance + belief.trend_variance
    return Belief(
        belief.level + belief.trend,
        belief.trend,
        belief.level_variance + belief.covariance + crossed + noise.level,
        crossed,
        belief.trend_variance + noise.trend,
    )


def corrected(belief: Belief, value: float, noise: Noise) -> Belief:
    """After an observation."""
    doubt = belief.level_variance + noise.measured
    level_gain, trend_gain = belief.level_variance / doubt, belief.covariance / doubt
    error = value - belief.level
    return Belief(
        belief.level + level_gain * error,
        belief.trend + trend_gain * error,
        (1 - level_gain) * belief.level_variance,
        (1 - level_gain) * belief.covariance,
        belief.trend_variance - trend_gain * belief.covariance,
    )


class Forecaster:
    """Observe one, predict one. Zeros before the first traffic are skipped."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self._next: Belief | None = None

    def observe(self, value: float) -> None:
        """The value of the step that ended."""
        if self._next is None:
            if value == 0:
                return
            now = first(value)
        else:
            now = corrected(self._next, value, self._noise)
        self._next = ahead(now, self._noise)

    def predict(self) -> float:
        """The value expected for the next step; 0 before there was any."""
        return 0.0 if self._next is None else self._next.level
