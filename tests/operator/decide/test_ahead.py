"""Decisions that rest on the history: a cold start ahead, with words and numbers."""

import pytest
from msgspec.structs import replace

from cacheaware.decide.cold_start import ColdStart, Stage, Starting, lead_s
from cacheaware.decide.learned import Learned
from cacheaware.decide.policy import Policy, RatePolicy, Rules
from cacheaware_sidecar.phase import Phase

FAST = Rules(stabilization_seconds=0, policies=(RatePolicy("Pods", 100, 15),))
POLICY = Policy(mode="Scale", max_replicas=50, scale_up=FAST)
LEARNED = Learned(
    starts=(ColdStart(schedule=1, pull=4, load=45, warm=10),) * 5, prefill_tokens_per_s=1000.0
)


def served(make, count, tokens, **fields):
    """Pods that took in prompt tokens in the last five seconds; 5,000 are one pod's at target."""
    each = tokens / count
    return make.fleet(
        [make.tokens(f"p{at:02}", new_prompt_tokens=each, **fields) for at in range(count)],
        learned=LEARNED,
    )


def lived(make, rounds, loads, count=4, policy=POLICY, **fields):
    """Rounds of five seconds with these prompt tokens each."""
    life = rounds(policy, replicas=count)
    for tokens in loads:
        life.round(served(make, count, tokens, **fields), after=5, write=False)
    return life


def term(decision, signal):
    return next((one for one in decision.terms if one.signal == signal), None)


def test_at_first_the_prefill_of_the_last_minute_counts(make, rounds):
    last = lived(make, rounds, [10000] * 10).decisions[-1]

    assert term(last, "forecast") is None
    assert (term(last, "prefill").demand, term(last, "prefill").replicas) == (2.0, 2)


def test_later_a_cold_start_ahead_does(make, rounds):
    last = lived(make, rounds, [15000] * 60).decisions[-1]

    assert term(last, "prefill") is None
    assert term(last, "forecast").replicas == 3
    assert "in 65 s" in term(last, "forecast").note
    assert (last.raw, last.desired) == (3, 4)


def test_prefill_alone_grows_a_fleet_whose_cache_is_empty(make, rounds):
    last = lived(make, rounds, [15000] * 50 + [40000] * 12).decisions[-1]

    assert term(last, "kv-tokens").demand == 0
    assert last.desired >= 8


def test_the_users_headroom_comes_on_top(make, rounds):
    policy = replace(POLICY, headroom_percent=50)
    last = lived(make, rounds, [15000] * 60, policy=policy).decisions[-1]

    assert term(last, "forecast").replicas == 5
    assert "50 % headroom" in term(last, "forecast").note


def test_a_short_queue_is_not_counted_twice_where_prefill_is_known(make, rounds):
    burst = {"waiting": 30.0, "prompt_tokens_per_request": 1.0}
    life = lived(make, rounds, [5000] * 20)
    one = life.round(served(make, 4, 5000, **burst), after=5, write=False)
    for _ in range(12):
        lasting = life.round(served(make, 4, 5000, **burst), after=5, write=False)

    assert (one.raw, one.desired) == (4, 4)
    assert "120 requests wait" in one.message, "they wait, whether or not they count"
    assert (lasting.raw, lasting.desired) == (24, 24)


@pytest.mark.parametrize(("age_s", "raw"), [(30.0, 5), (3600.0, 24)])
def test_a_lasting_queue_orders_nothing_more_while_pods_come_in_time(make, rounds, age_s, raw):
    """What waits stays with its engine: the pods on their way take what comes."""
    burst = {"waiting": 30.0, "prompt_tokens_per_request": 1.0}
    life = lived(make, rounds, [5000] * 20)
    begun = Starting(Stage.LOAD, age_s=age_s)
    fifth = make.pod("p9", phase=Phase.LOADING, ready=False, starting=begun)
    for _ in range(14):
        fleet = served(make, 4, 5000, **burst)
        last = life.round(
            replace(fleet, spec_replicas=5, pods=(*fleet.pods, fifth)), after=5, write=False
        )

    assert last.raw == raw


def test_without_a_measured_speed_the_queue_counts_at_once(make, rounds):
    life = rounds(POLICY, replicas=4)
    for _ in range(10):
        life.round(make.fleet([make.tokens(f"p{at}") for at in range(4)]), after=5, write=False)
    burst = make.fleet([make.tokens(f"p{at}", waiting=30.0) for at in range(4)])

    assert term(life.round(burst, after=5, write=False), "pending").replicas == 24


def test_what_nobody_tells_adds_nothing_to_the_history(make, rounds):
    life = lived(make, rounds, [15000] * 60)
    before = life.memory.history
    life.round(make.fleet([make.unknown(f"p{at:02}") for at in range(4)]), after=5, write=False)

    assert life.memory.history == before


def test_a_long_pause_ends_the_history_and_a_human_does_not(make, rounds):
    life = lived(make, rounds, [15000] * 60)
    life.round(served(make, 6, 15000), after=5, write=False)
    kept = len(life.memory.history.needs)
    life.round(served(make, 6, 15000), after=500, write=False)

    assert kept == 60
    assert list(life.memory.history.needs) == []


def test_a_fleet_of_unequal_pods_is_measured_in_pods_of_one_size(make, rounds):
    life = rounds(POLICY, replicas=2)
    for _ in range(60):
        pods = [
            make.tokens("big", used=96_000.0, capacity=160_000.0),
            make.tokens("small", used=24_000.0, capacity=40_000.0),
        ]
        last = life.round(make.fleet(pods, learned=LEARNED), after=5, write=False)

    assert term(last, "forecast").demand == pytest.approx(1.5)
    assert term(last, "forecast").per_replica == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("totals", "expected"), [((), 120.0), ((50,), 50.0), ((10, 60, 300), 60.0)]
)
def test_it_looks_ahead_by_the_cold_starts_that_it_knows(totals, expected):
    starts = tuple(ColdStart(schedule=0, pull=0, load=one, warm=0) for one in totals)

    assert lead_s(starts) == expected
