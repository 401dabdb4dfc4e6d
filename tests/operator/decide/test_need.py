"""What a round adds to the history."""

import pytest
from msgspec.structs import replace

from cacheaware.decide.demand import kv_signal
from cacheaware.decide.history import History
from cacheaware.decide.need import PREFILL_TARGET, moment_of
from cacheaware.decide.policy import Policy
from cacheaware.decide.supply import supply_of

SPEED = 1000.0


@pytest.fixture
def moment(make):
    def at(*pods, before=None, speed=SPEED, **policy):
        wishes = Policy(mode="Scale", **policy)
        supply = supply_of(make.fleet(pods), wishes)
        return moment_of(
            supply,
            kv_signal(supply, wishes),
            wishes,
            History(waiting=before),
            prefill_tokens_per_s=speed,
            seconds=5.0,
        )

    return at


def test_prefill_is_what_came_over_what_a_pod_may_do(make, moment):
    seen = moment(
        make.tokens("a", new_prompt_tokens=300.0), make.tokens("b", new_prompt_tokens=350.0)
    )

    assert seen.work == pytest.approx(650 / (SPEED * PREFILL_TARGET))


def test_what_is_cached_needs_no_prefill(make, moment):
    seen = moment(make.tokens(new_prompt_tokens=2000.0, prefix_hit_ratio=0.5))

    assert seen.work == pytest.approx(1.0)


def test_without_a_counter_the_rate_has_to_do(make, moment):
    assert moment(make.tokens(prompt_tokens_per_s=200.0)).work == pytest.approx(1.0)


@pytest.mark.parametrize("fields", [{}, {"new_prompt_tokens": float("nan")}])
def test_prefill_is_unknown_where_no_pod_tells(make, moment, fields):
    assert moment(make.tokens(**fields)).work is None


def test_prefill_is_unknown_without_a_speed_and_none_of_decode_pods(make, moment):
    pod = make.tokens(new_prompt_tokens=300.0)

    assert moment(pod, speed=None).work is None
    assert moment(pod, role="Decode").work is None


def test_requests_that_newly_wait_count_with_their_prompts(make, moment):
    pod = make.tokens(waiting=4.0, new_prompt_tokens=0.0, prompt_tokens_per_request=500.0)

    assert moment(pod, before=2.0).work == pytest.approx(1.0)
    assert moment(pod, before=4.0).work == 0.0
    assert moment(pod, before=9.0).work == 0.0
    assert moment(pod, before=None).work == 0.0


def test_a_queue_that_stands_fills_no_cache_in_the_history(make, moment):
    pod = make.tokens(used=40_000.0, waiting=50.0, tokens_per_request=1000.0)

    assert moment(pod, before=50.0).kv == pytest.approx(0.5)
    assert moment(pod, before=10.0).kv == pytest.approx(1.0)
    assert moment(pod, before=60.0).kv == pytest.approx(0.5)


def test_a_request_is_no_larger_than_a_pod(make, moment):
    pod = make.tokens(waiting=1.0, tokens_per_request=1e9)

    assert moment(pod, before=0.0).kv == pytest.approx(1.25)


def test_without_tokens_the_usage_counts(make, moment):
    seen = moment(make.pod("a", kv=0.4), make.pod("b", kv=0.6))

    assert seen.kv == pytest.approx(1.25)
    assert seen.pod is None


def test_unknown_pods_add_nothing(make, moment):
    seen = moment(make.tokens("a", used=40_000.0, new_prompt_tokens=1000.0), make.unknown("b"))

    assert (seen.kv, seen.work) == (pytest.approx(0.5), pytest.approx(1.0))
    assert replace(seen, waiting=None).waiting is None


def test_a_request_is_as_large_as_those_that_began_and_not_as_those_of_the_mean_pod(make, moment):
    few = {"prompt_tokens_per_s": 100.0, "prompt_tokens_per_request": 1000.0}
    many = {"prompt_tokens_per_s": 180.0, "prompt_tokens_per_request": 200.0}
    pods = [
        make.tokens("a", waiting=10.0, new_prompt_tokens=0.0, tokens_per_request=2000.0, **few),
        make.tokens("b", waiting=0.0, new_prompt_tokens=0.0, tokens_per_request=1000.0, **many),
    ]

    seen = moment(*pods, before=0.0)

    assert seen.work == pytest.approx(10 * 280 / SPEED)
    assert seen.kv == pytest.approx(10 * 1100 / 80_000)
