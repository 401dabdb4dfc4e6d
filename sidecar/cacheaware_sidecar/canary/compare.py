"""Whether a run of the canary has drifted from the runs of a healthy model. Pure.

Engines are not deterministic: with other requests in the batch kernels add in another order, and
log probabilities move. How far, a baseline's own repeats tell. The measure of a run is the mean of
|its log probability - the median of the repeats'| over the tokens that both have: all of the
prompt's, and of the answer's those before the first that is another, for what comes after it has
another past. For each repeat it is taken against the median of the other repeats, in the same
tokens. A new run of the same model lies, but once in a thousand, below

    resolution + mean + t * deviation * sqrt(1 + 1/n)

of the n repeats' measures: the one-sided prediction interval of Student's t with n - 1 degrees of
freedom (Hahn and Meeker, Statistical Intervals, 4.7). Three such runs on end, and it is no chance.
The resolution (`logit_step`) is what the repeats can't show where they are equal to the bit.

A greedy token that is another is no drift by itself: near a tie, rounding turns it. It is drift
where the likeliest was farther ahead of the second than both can move: twice the farthest that any
token of any repeat was off, and twice a whole step. An unknown lead is none.

8 repeats with measures of 0.010, 0.012, ..., 0.024: mean 0.017, deviation 0.0049, t(7) 4.785, so
the tolerance is 0.031 + 0.017 + 4.785 * 0.0049 * 1.061 = 0.073.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Final

from cacheaware_sidecar.canary.baseline import FEWEST, Baseline, NotComparableError, check_alike
from cacheaware_sidecar.canary.completion import Run, texts

T_999: Final = (
    318.31, 22.327, 10.215, 7.173, 5.893, 5.208, 4.785, 4.501, 4.297, 4.144, 4.025, 3.930, 3.852,
    3.787, 3.733,
)  # fmt: skip
"""Student's t, one-sided 0.999, for 1 to 15 degrees of freedom."""
CONFIRM: Final = 3
"""Drifted runs on end."""
DOUBTLESS: Final = math.log(2)
"""On average tokens are half or twice as probable as they were."""

_Row = list[float | None]
"""Log probabilities by place, in nats; None where a place has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How far a run is from a baseline; differences are of natural logarithms."""

    tokens: int
    """That were compared."""
    mean: float | None = None
    """Mean difference; None where no token could be compared."""
    tolerance: float | None = None
    largest: float | None = None
    changed: float = 0.0
    """Share of the answer's tokens that are others, 0..1."""
    first_changed: int | None = None
    """Place of the first of them in the answer, from 0."""
    turned: bool = False
    """Whether that one can't be a tie that rounding has turned."""
    broken: bool = False
    """Whether a log probability is no number."""

    @property
    def drifted(self) -> bool:
        """Whether the run is not the baseline's model."""
        return self.broken or self.turned or self.is_far

    @property
    def is_far(self) -> bool:
        """Whether the mean difference is above the tolerance."""
        return self.mean is not None and self.tolerance is not None and self.mean > self.tolerance

    @property
    def doubtless(self) -> bool:
        """Whether that is beyond any doubt."""
        return self.broken or (self.is_far and (self.mean or 0.0) >= DOUBTLESS)


def compare(baseline: Baseline, run: Run) -> Comparison:
    """Hold a run against a baseline of at least `FEWEST` runs.

    Raises:
        NotComparableError: Their tokens are not of one tokeniser, or none could be compared.
    """
    check_alike(baseline, run)
    if is_broken(run):
        return Comparison(tokens=0, broken=True)
    answer = usual_answer(baseline.runs)
    healthy = [_numbers(each, answer) for each in baseline.runs]
    mine = _numbers(run, answer)
    shared = [
        at for at, value in enumerate(mine)
        if value is not None and sum(row[at] is not None for row in healthy) >= FEWEST
    ]  # fmt: skip
    first = _first_changed(answer, texts(run.answer))
    if not shared and first is None:
        raise NotComparableError("no token has a log probability in both")
    spread = [
        found for number, row in enumerate(healthy)
        if (found := _gaps(row, healthy[:number] + healthy[number + 1 :], shared))
    ]  # fmt: skip
    gaps = _gaps(mine, healthy, shared)
    own = tolerance([fmean(each) for each in spread], baseline.resolution) if shared else None
    return Comparison(
        tokens=len(shared),
        mean=fmean(gaps) if gaps else None,
        tolerance=own,
        largest=max(gaps, default=None),
        changed=_changed(answer, texts(run.answer)),
        first_changed=first,
        turned=first is not None and _is_turned(baseline, answer, first, spread),
    )


def is_broken(run: Run) -> bool:
    """Whether a log probability is no number (NaN, infinite)."""
    values = (each.logprob for each in (*run.prompt, *run.answer))
    return any(value is not None and not math.isfinite(value) for value in values)


def usual_answer(runs: Sequence[Run]) -> tuple[str, ...]:
    """The tokens that most runs answered; the earlier of equals."""
    return Counter(texts(each.answer) for each in runs).most_common(1)[0][0]


def tolerance(measures: Sequence[float], resolution: float) -> float:
    """The mean difference up to which a run is no drift, by the repeats' own measures.

    >>> round(tolerance([0.010, 0.012, 0.014, 0.016, 0.018, 0.020, 0.022, 0.024], 1 / 32), 3)
    0.073
    """
    count = len(measures)
    widened = T_999[min(count - 1, len(T_999)) - 1] * stdev(measures) * math.sqrt(1 + 1 / count)
    return resolution + fmean(measures) + widened


def _numbers(run: Run, answer: Sequence[str]) -> _Row:
    """Log probabilities by place: the prompt's, then the answer's while it is the usual one."""
    same = _first_changed(answer, texts(run.answer))
    kept = run.answer[:same]
    row = [each.logprob for each in (*run.prompt, *kept)]
    return row + [None] * (len(answer) - len(kept))


def _known(rows: Sequence[_Row], at: int) -> list[float]:
    return [value for row in rows if (value := row[at]) is not None]


def _gaps(row: _Row, others: Sequence[_Row], places: Sequence[int]) -> list[float]:
    """How far a row is from the median of others, in those of these places that it has."""
    return [
        abs(value - median(_known(others, at))) for at in places if (value := row[at]) is not None
    ]


def _first_changed(answer: Sequence[str], other: Sequence[str]) -> int | None:
    """The first place where two answers differ, be it that one has ended."""
    pairs = zip(answer, other, strict=False)
    unlike = next((at for at, (one, two) in enumerate(pairs) if one != two), None)
    if unlike is None and len(answer) != len(other):
        return min(len(answer), len(other))
    return unlike


def _changed(answer: Sequence[str], other: Sequence[str]) -> float:
    length = max(len(answer), len(other))
    same = sum(one == two for one, two in zip(answer, other, strict=False))
    return (length - same) / length


def _is_turned(
    baseline: Baseline, answer: Sequence[str], at: int, spread: Sequence[Sequence[float]]
) -> bool:
    """Whether the token at this place was too far ahead for rounding to turn it."""
    if at >= len(answer):
        return False
    runs = baseline.runs
    firsts = [_first_changed(answer, texts(each.answer)) for each in runs]
    if at in firsts:
        return False  # a healthy run has turned it, too
    alike = [each for each, first in zip(runs, firsts, strict=True) if first is None or first > at]
    leads = [lead for each in alike if (lead := each.answer[at].margin) is not None]
    farthest = max((gap for each in spread for gap in each), default=0.0)
    return bool(leads) and median(leads) > 2 * (farthest + 2 * baseline.resolution)
