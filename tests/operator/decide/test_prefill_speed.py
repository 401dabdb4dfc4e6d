"""How fast a pod in service prefills."""

import pytest

from cacheaware.decide.prefill_speed import (
    ENOUGH_S,
    IN_SERVICE,
    MEMORY_S,
    Prefilled,
    in_service,
    remembered,
)

LONG_PROMPTS = Prefilled(seconds=2 * ENOUGH_S, tokens=600_000.0, requests=50.0)


def test_requests_that_ended_tell_it():
    assert in_service(LONG_PROMPTS, idle=12_000.0) == 600_000 / (2 * ENOUGH_S)


def test_few_seconds_of_prefill_tell_nothing_yet():
    few = Prefilled(seconds=ENOUGH_S - 1, tokens=600_000.0, requests=50.0)

    assert in_service(few, idle=12_000.0) == 12_000 * IN_SERVICE


def test_short_prompts_that_share_iterations_tell_nothing():
    short = Prefilled(seconds=2 * ENOUGH_S, tokens=100_000.0, requests=1000.0)

    assert in_service(short, idle=12_000.0) == 12_000 * IN_SERVICE


def test_without_either_it_is_unknown():
    assert in_service(Prefilled(), None) is None


def test_less_than_a_token_per_second_is_no_speed():
    absurd = Prefilled(seconds=1e15, tokens=1.0)

    assert in_service(absurd, idle=12_000.0) == 12_000 * IN_SERVICE


def test_old_requests_fade_as_new_ones_come():
    old = Prefilled(seconds=MEMORY_S, tokens=MEMORY_S * 10_000, requests=100.0)
    for _ in range(100):
        old = old.with_more(Prefilled(seconds=60.0, tokens=60.0 * 5000, requests=10.0))

    assert in_service(old, None) == pytest.approx(5000, rel=0.01)


def test_one_look_with_more_than_is_remembered_is_all_that_counts():
    much = Prefilled(seconds=2 * MEMORY_S, tokens=8e6, requests=10.0)

    assert Prefilled(seconds=60.0, tokens=1.0, requests=1.0).with_more(much) == much


def test_a_speed_of_a_former_operator_holds_until_requests_tell_another():
    before = remembered(5000.0, seconds=ENOUGH_S)

    assert in_service(before, idle=12_000.0) == 5000.0
    after = before.with_more(Prefilled(seconds=MEMORY_S, tokens=MEMORY_S * 8000, requests=100.0))
    assert in_service(after, idle=12_000.0) == 8000.0


def test_prompts_that_share_iterations_end_a_remembered_speed_at_once():
    short = Prefilled(seconds=10.0, tokens=10_000.0, requests=100.0)

    after = remembered(5000.0, seconds=MEMORY_S).with_more(short)

    assert in_service(after, idle=12_000.0) == 12_000 * IN_SERVICE
