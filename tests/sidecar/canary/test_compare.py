import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sidecar.canary.fakes import ANSWER, baseline, run

from cacheaware_sidecar.canary.baseline import (
    Identity,
    NotComparableError,
    check_alike,
    check_identity,
)
from cacheaware_sidecar.canary.compare import compare, is_broken, tolerance, usual_answer
from cacheaware_sidecar.canary.completion import Run, Token
from cacheaware_sidecar.canary.logit_step import USUAL_STEP, step_of


def test_the_same_model_has_not_drifted():
    found = compare(baseline(), run(noise=0.01, seed=1))

    assert not found.drifted
    assert found.tokens == 39 + 16  # all but the prompt's first
    assert found.mean < found.tolerance
    assert (found.changed, found.first_changed) == (0.0, None)


@pytest.mark.parametrize("shift", [0.08, -0.08, 0.3])
def test_a_small_systematic_shift_is_drift(shift):
    found = compare(baseline(), run(shift=shift, noise=0.01, seed=1))

    assert found.drifted
    assert not found.doubtless
    assert found.mean == pytest.approx(abs(shift), rel=0.2)


def test_another_model_is_drift_beyond_any_doubt():
    found = compare(baseline(), run(weights=8))

    assert found.drifted
    assert found.doubtless


def test_repeats_that_are_equal_to_the_bit_leave_the_resolution():
    quiet = baseline(noise=0.0)

    assert compare(quiet, run()).tolerance == USUAL_STEP / 2
    assert not compare(quiet, run(shift=0.03)).drifted
    assert compare(quiet, run(shift=0.033)).drifted


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.005, 0.02, 0.1]))
def test_noise_of_the_baselines_own_size_is_no_drift(seed, noise):
    assert not compare(baseline(noise=noise), run(noise=noise, seed=seed)).drifted


def test_false_alarms_of_the_interval_alone_are_rare():
    dice, alarms, rounds = random.Random(5), 0, 20000
    for _ in range(rounds):
        measures = [dice.gauss(0.05, 0.01) for _ in range(8)]
        alarms += dice.gauss(0.05, 0.01) > tolerance(measures, 0.0)

    assert alarms / rounds == pytest.approx(0.001, abs=0.0008)


@given(st.lists(st.floats(0, 1), min_size=4, max_size=16))
def test_a_tolerance_is_never_below_what_repeats_show_on_average(measures):
    assert tolerance(measures, 0.03) >= sum(measures) / len(measures) + 0.03 - 1e-9


def with_leads(*leads):
    tokens = tuple(Token(f"t{at}", -1.0, lead) for at, lead in enumerate(leads))
    return Run(prompt=tokens[:2], answer=tokens[2:])


@pytest.mark.parametrize(
    ("leads", "step"),
    [
        ((0.875, 0.87109375, 0.55859375), 1 / 256),
        ((0.4375000001, 1.8125, 3.0, 0.0625), 1 / 16),
        ((0.123, 0.877, 1.77), None),
        ((0.123, 0.877, 1.5), None),
        ((None, None, 0.0), None),
        ((2.0, 4.0, 1.0), 1.0),
    ],
)
def test_the_step_of_logits_shows_in_the_leads(leads, step):
    assert step_of(with_leads(*leads)) == step


def test_a_fine_step_finds_a_small_shift():
    fine = replace(baseline(noise=0.0), step=1 / 256)

    assert not compare(fine, run(shift=0.0019)).drifted
    assert compare(fine, run(shift=0.005)).drifted


def changed_at(at, **more):
    answer = (*ANSWER[:at], *(f" x{n}" for n in range(at, len(ANSWER))))
    return run(answer=answer, **more)


def test_a_tie_that_rounding_turns_is_no_drift():
    near = replace(baseline(), runs=tuple(run(lead=0.1, seed=n) for n in range(8)))
    found = compare(near, changed_at(5))

    assert not found.drifted
    assert found.first_changed == 5
    assert found.changed == pytest.approx(11 / 16)
    assert found.tokens == 39 + 5


def test_a_token_that_was_far_ahead_does_not_turn_by_rounding():
    found = compare(baseline(), changed_at(5))

    assert found.turned
    assert found.drifted
    assert not found.is_far
    assert not found.doubtless


def test_a_lead_that_is_not_told_is_no_drift():
    silent = replace(baseline(), runs=tuple(run(lead=None, seed=n) for n in range(8)))

    assert not compare(silent, changed_at(0)).drifted


def test_what_a_healthy_run_has_turned_too_is_no_drift():
    mixed = baseline()
    mixed = replace(mixed, runs=(*mixed.runs[:-1], changed_at(5)))

    assert usual_answer(mixed.runs) == ANSWER
    assert not compare(mixed, changed_at(5)).drifted
    assert compare(mixed, changed_at(4)).turned


def test_an_answer_that_ends_early_has_changed_there():
    found = compare(baseline(), run(answer=ANSWER[:6]))
    longer = replace(baseline(), runs=tuple(run(answer=ANSWER[:6], seed=n) for n in range(8)))

    assert (found.first_changed, found.turned) == (6, True)
    assert compare(longer, run()).first_changed == 6
    assert not compare(longer, run()).drifted  # nobody knows how near the end was


def test_a_log_probability_that_is_no_number_is_drift_beyond_any_doubt():
    for value in (math.nan, -math.inf):
        found = compare(baseline(), run(shift=value))
        assert found.drifted
        assert found.doubtless
    assert not is_broken(run())


def test_a_first_token_that_turned_without_a_prompt_is_all_there_is():
    plain = replace(baseline(), runs=tuple(run(prompt=0, seed=n) for n in range(8)))
    found = compare(plain, changed_at(0, prompt=0))

    assert (found.tokens, found.mean, found.tolerance) == (0, None, None)
    assert found.turned
    assert found.drifted


@pytest.mark.parametrize(
    ("one", "said"),
    [
        pytest.param(run(prompt=30), "another tokeniser", id="tokeniser"),
        pytest.param(run(prompt=0), "only one of both", id="no-prompt"),
        pytest.param(
            Run(
                prompt=tuple(Token(each.text, None) for each in run().prompt),
                answer=tuple(Token(each, None) for each in ANSWER),
            ),
            "no token has a log probability",
            id="no-numbers",
        ),
    ],
)
def test_what_is_not_of_one_thing_is_not_compared(one, said):
    with pytest.raises(NotComparableError, match=said):
        compare(baseline(), one)


def test_before_the_first_run_everything_is_alike():
    check_alike(replace(baseline(), runs=()), run(prompt=3))


def test_tokens_that_too_few_repeats_have_are_not_compared():
    split = replace(
        baseline(), runs=(*(run(seed=n) for n in range(3)), *(changed_at(2) for _ in range(2)))
    )

    assert compare(split, run()).tokens == 39 + 2


@pytest.mark.parametrize(
    ("healthy", "now", "differs"),
    [
        ({"model": "m"}, {"model": "n"}, True),
        ({"engine": "vllm"}, {"engine": "sglang"}, True),
        ({"version": "1"}, {"version": "2"}, True),
        ({"model": "m", "version": "1"}, {"model": "m"}, False),
        ({}, {"model": "m", "engine": "vllm"}, False),
        ({"model": "m"}, {"model": "m"}, False),
    ],
)
def test_only_what_both_tell_can_differ(healthy, now, differs):
    if not differs:
        check_identity(Identity(**healthy), Identity(**now))
        return
    with pytest.raises(NotComparableError, match="the baseline is of"):
        check_identity(Identity(**healthy), Identity(**now))
