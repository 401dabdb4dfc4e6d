"""The step of the number format in which an engine makes its logits, as log probabilities show it.

The lead of a token, the likeliest's log probability less the second's, is a difference of two
logits and so a multiple of the step: of bfloat16, 1/16 for logits from 8 to 16. Rounding alone may
move a log probability by half of it, which repeats can't show where they are equal to the bit, as
on an idle engine. Where no step shows, because leads are not told or logits are float32, it is
taken for 1/16. Pure.
"""

from statistics import median_low
from typing import Final

from cacheaware_sidecar.canary.completion import Run

USUAL_STEP: Final = 1 / 16
"""Of logits, in nats, where none shows."""
FINEST: Final = 12
"""Steps down to 2^-12 are told from the errors of float32: about 2e-6 for differences near 10."""
FLOAT32_ERROR: Final = 2e-6


def resolution(step: float | None) -> float:
    """By how much rounding alone may move a log probability, in nats."""
    return (step or USUAL_STEP) / 2


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
    """The largest power of two that a lead is a multiple of."""
    for power in range(FINEST + 1):
        scaled = lead * 2**power
        if abs(scaled - round(scaled)) <= FLOAT32_ERROR * 2**power:
            return float(2**-power)
    return None
