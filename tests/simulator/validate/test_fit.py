"""Fitting to logs of which the truth is known."""

from dataclasses import replace

import pytest

from cacheaware_sim.profiles import PROFILES
from cacheaware_sim.validate.figures import measured
from cacheaware_sim.validate.fit import fit, objective, stall_s
from cacheaware_sim.validate.request_logs import ServedRequest

PROFILE = PROFILES["llama-3.1-8b-rtxpro6000"]


def test_a_wrong_start_is_corrected(serve):
    logged = serve(PROFILE.name)
    wrong = PROFILE.with_cost(PROFILE.cost.times(c0=1.3))

    found = fit(wrong, logged, short_of_cache=False)

    assert found.objective < 0.1
    assert found.cost.c0_ms == pytest.approx(PROFILE.cost.c0_ms, rel=0.05)
    assert found.shared is None
    assert found.preemptions == 0


def test_the_fit_does_not_look_at_the_second_half(serve):
    logged = serve(PROFILE.name)
    half = len(logged) // 2
    slower = [replace(one, last_token_at=one.last_token_at + 60) for one in logged[half:]]

    first = fit(PROFILE, logged, short_of_cache=False)
    second = fit(PROFILE, (*logged[:half], *slower), short_of_cache=False)

    assert first.cost == second.cost
    assert first.served == second.served


def test_where_the_cache_is_short_what_prompts_share_is_looked_for(serve):
    logged = serve("tiny")

    found = fit(PROFILES["tiny"], logged, short_of_cache=True)

    assert found.shared is not None
    assert found.shared > 0
    assert found.replays > 20


def test_the_objective_is_0_for_the_same_times(serve):
    times = measured(serve(PROFILE.name))
    assert objective(times, times) == 0


def test_a_first_prompt_that_is_faster_than_its_iterations_has_no_stall():
    first = ServedRequest(0.0, 0.001, 1.0, prompt_tokens=100, output_tokens=10)
    assert stall_s(PROFILE.cost, 2048, first) == 0
