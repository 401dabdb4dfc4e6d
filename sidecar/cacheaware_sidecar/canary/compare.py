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

The resolution is what the repeats can't show where they are equal to the bit, as on an idle engine:
half a step of the logits' number format, by which rounding alone may move them. The step shows in
the leads: the likeliest token's log probability less the second's is a difference of two logits,
and so a multiple of it (of bfloat16, 1/16 for logits from 8 to 16). Where no step shows, because
leads are not told or logits are float32, it is taken for 1/16.

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
from statistics import fmean, median, median_low, stdev
from typing import Final

from cacheaware_sidecar.canary.completion import Run, Token, Way

USUAL_STEP: Final = 1 / 16
"""Of logits, in nats, where none shows."""
FINEST: Final = 12
"""Steps down to 2^-12 are told from the errors of float32: about 2e-6 for differences near 10."""
FLOAT32_ERROR: Final = 2e-6
T_999: Final = (
    318.31, 22.327, 10.215, 7.173, 5.893, 5.208, 4.785, 4.501, 4.297, 4.144, 4.025, 3.930, 3.852,
    3.787, 3.733,
)  # fmt: skip
"""Student's t, one-sided 0.999, for 1 to 15 degrees of freedom."""
FEWEST: Final = 4
"""Repeats of a baseline: with three, t is 22 and hardly anything would be drift."""
REPEATS: Final = 8
MOST: Final = len(T_999) + 1
CONFIRM: Final = 3
"""Drifted runs on end."""
DOUBTLESS: Final = math.log(2)
"""On average tokens are half or twice as probable as they were."""


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
        return (self.step or USUAL_STEP) / 2


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
        return None not in {self.mean, self.tolerance} and self.mean > self.tolerance  # type: ignore[operator]

    @property
    def doubtless(self) -> bool:
        """Whether that is beyond any doubt."""
        return self.broken or (self.is_far and (self.mean or 0.0) >= DOUBTLESS)


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
    healthy, now = _texts(baseline.runs[0].prompt), _texts(run.prompt)
    if bool(healthy) is not bool(now):
        raise NotComparableError("only one of both has log probabilities of the prompt's tokens")
    if healthy != now:
        raise NotComparableError(
            f"the prompt is {len(now)} tokens, in the baseline {len(healthy)} others:"
            " another tokeniser"
        )


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
    first = _first_changed(answer, _texts(run.answer))
    if not shared and first is None:
        raise NotComparableError("no token has a log probability in both")
    measured = [_gaps_of(healthy, number, shared) for number in range(len(healthy))]
    spread = [each for each in measured if each]
    gaps = [abs(mine[at] - median(_known(healthy, at))) for at in shared]  # type: ignore[operator]
    own = tolerance([fmean(each) for each in spread], baseline.resolution) if shared else None
    return Comparison(
        tokens=len(shared),
        mean=fmean(gaps) if gaps else None,
        tolerance=own,
        largest=max(gaps, default=None),
        changed=_changed(answer, _texts(run.answer)),
        first_changed=first,
        turned=first is not None and _is_turned(baseline, answer, first, spread),
    )


def is_broken(run: Run) -> bool:
    """Whether a log probability is no number (NaN, infinite)."""
    values = (each.logprob for each in (*run.prompt, *run.answer))
    return any(value is not None and not math.isfinite(value) for value in values)


def usual_answer(runs: Sequence[Run]) -> tuple[str, ...]:
    """The tokens that most runs answered; the earlier of equals."""
    return Counter(_texts(each.answer) for each in runs).most_common(1)[0][0]


def step_of(run: Run) -> float | None:
    """The step of an engine's logits, a power of two, by what is seen of a run.

    Of each lead the largest step that it is a multiple of, and of these the median: half of all
    multiples are of no larger one. Leads of 0.875, 0.87109375 and 0.55859375 are 7/8, 223/256 and
    143/256, so the step is 1/256. None where most leads are multiples of none.
    """
    leads = {each.margin for each in (*run.prompt, *run.answer) if each.margin}
    steps = [step for lead in leads if (step := _step(lead)) is not None]
    return median_low(steps) if steps and 2 * len(steps) > len(leads) else None


def _step(lead: float) -> float | None:
    for power in range(FINEST + 1):
        scaled = lead * 2**power
        if abs(scaled - round(scaled)) <= FLOAT32_ERROR * 2**power:
            return float(2**-power)
    return None


def tolerance(measures: Sequence[float], resolution: float) -> float:
    """The mean difference up to which a run is no drift, by the repeats' own measures.

    >>> round(tolerance([0.010, 0.012, 0.014, 0.016, 0.018, 0.020, 0.022, 0.024], 1 / 32), 3)
    0.073
    """
    count = len(measures)
    widened = T_999[min(count, MOST) - 2] * stdev(measures) * math.sqrt(1 + 1 / count)
    return resolution + fmean(measures) + widened


def _texts(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(each.text for each in tokens)


def _numbers(run: Run, answer: Sequence[str]) -> list[float | None]:
    """Log probabilities by place: the prompt's, then the answer's while it is the usual one."""
    same = _first_changed(answer, _texts(run.answer))
    kept = run.answer[:same]
    row = [each.logprob for each in (*run.prompt, *kept)]
    return row + [None] * (len(answer) - len(kept))


def _known(rows: Sequence[Sequence[float | None]], at: int) -> list[float]:
    return [value for row in rows if (value := row[at]) is not None]


def _gaps_of(rows: Sequence[Sequence[float | None]], number: int, shared: list[int]) -> list[float]:
    """How far one repeat is from the others, in these places."""
    own, others = rows[number], [row for other, row in enumerate(rows) if other != number]
    return [
        abs(value - median(_known(others, at))) for at in shared if (value := own[at]) is not None
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
    firsts = [_first_changed(answer, _texts(each.answer)) for each in runs]
    if at in firsts:
        return False  # a healthy run has turned it, too
    alike = [each for each, first in zip(runs, firsts, strict=True) if first is None or first > at]
    leads = [lead for each in alike if (lead := each.answer[at].margin) is not None]
    farthest = max((gap for each in spread for gap in each), default=0.0)
    return bool(leads) and median(leads) > 2 * (farthest + 2 * baseline.resolution)
