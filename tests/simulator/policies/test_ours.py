"""Our policy in virtual time: the cluster's code, fed with what its sidecars would tell."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

from cacheaware.observe.poll import Answer
from cacheaware.observe.sidecar import look, look_of
from cacheaware_sidecar.observed import Observed
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state_json import pod_state_to_json
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.fleet.faults import MetricsStale, SlowNode, SlowStarts, WritesRefused
from cacheaware_sim.fleet.fleet import Fleet, FleetConfig
from cacheaware_sim.fleet.pod import Stage
from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.policies.ours import CacheAwarePolicy, state_of
from cacheaware_sim.policies.policy import Limits
from cacheaware_sim.policies.warmed import shapes_of
from cacheaware_sim.traces.randomness import stream
from cacheaware_sim.traces.trace import TraceRequest

LIMITS = Limits(1, 12)


@pytest.fixture
def policy():
    return CacheAwarePolicy(LIMITS)


@pytest.fixture(scope="session")
def rounds(fleet, obey):
    """Asks a policy each five seconds about a fleet that stays as it is; the last orders."""

    def play(policy, seconds, pods, *, start=0.0, **fields):
        orders = None
        for now in range(int(start), int(start + seconds), 5):
            seen = fleet(float(now), pods, requests=float(now), **fields)
            orders = policy.decide(seen)
        return orders

    return play


def test_what_a_sidecar_would_answer_is_read_as_the_operator_reads_it(serving):
    pod = serving(running=3.0, waiting=1.0, usage=0.5, requests=10.0)
    pod = replace(pod, phase=Phase.CORDONED, ready=False, cordoned_s=12.0, empty=True)
    sidecar = Observed()
    sidecar.good(pod.sample, 40.0)
    state = state_of(pod, sidecar, 42.0)

    answered = look(Answer(42.0, json.dumps(pod_state_to_json(state)).encode()))

    assert to_builtins(look_of(state, Phase.CORDONED, 42.0)) == to_builtins(answered)
    assert answered.load.running == 3
    assert answered.sample_age_s == 2.0
    assert answered.drain.empty
    assert answered.drain.cordoned_s == 12.0


def test_it_holds_what_is_well_loaded(policy, rounds):
    assert rounds(policy, 600, 4, running=20.0, usage=0.7).replicas == 4


def test_it_grows_when_the_caches_fill_up(policy, rounds):
    orders = rounds(policy, 60, 4, running=80.0, waiting=30.0, usage=0.98)

    assert orders.replicas > 4
    assert orders.victims == orders.cordons == ()
    assert orders.reason


def test_it_shrinks_by_a_cordon_and_only_after_its_window(policy, rounds):
    early = rounds(policy, 250, 4, running=1.0, usage=0.01)
    late = rounds(policy, 200, 4, start=250.0, running=1.0, usage=0.01)

    assert (early.replicas, early.cordons) == (4, ())
    assert (late.replicas, late.victims) == (4, ())
    assert len(late.cordons) == 1


def test_a_cordoned_pod_goes_when_it_is_empty_and_no_earlier(policy, rounds, fleet):
    (chosen,) = rounds(policy, 450, 4, running=1.0, usage=0.01).cordons

    def seen(now, *, empty):
        pods = [
            replace(pod, phase=Phase.CORDONED, ready=False, empty=empty, cordoned_s=now - 445.0)
            if pod.name == chosen
            else pod
            for pod in fleet(now, 4, running=0.0 if empty else 1.0, usage=0.01).pods
        ]
        return Observation(now, 4, tuple(pods))

    waits = policy.decide(seen(450.0, empty=False))
    goes = policy.decide(seen(455.0, empty=True))

    assert (waits.replicas, chosen in waits.cordons) == (4, True)
    assert (goes.replicas, goes.victims) == (3, (chosen,))


def test_pods_that_fall_silent_are_no_reason_to_shrink(policy, fleet):
    for now in range(0, 60, 5):
        policy.decide(fleet(float(now), 4, running=20.0, usage=0.7))
    for now in range(60, 1200, 5):
        seen = fleet(float(now), 4)
        silent = tuple(replace(pod, sample=None, sampled_at=None) for pod in seen.pods)
        orders = policy.decide(replace(seen, pods=silent))
        assert orders.replicas >= 4
        assert orders.cordons == ()


def test_cold_starts_are_learned(policy, serving, starting):
    for number in range(6):
        begun = 100.0 + number * 100.0
        for now in range(int(begun), int(begun) + 100, 5):
            new = f"new-{number}"
            pod = serving(new, at=float(now)) if now - begun >= 70 else starting(new)
            pods = (serving("old", at=float(now)), replace(pod, created_at=begun))
            policy.decide(Observation(float(now), 2, pods))

    # seen at the round in which each was first ready
    assert [start.total for start in policy.learned.starts] == [70.0] * 6


def test_what_requests_are_like_is_learned(policy, fleet):
    for now in range(0, 180, 5):
        counted = {"prompt_tokens": 900.0 * now, "generation_tokens": 100.0 * now}
        policy.decide(fleet(float(now), 2, running=4.0, usage=0.3, requests=float(now), **counted))

    work = policy.learned.work
    assert (work.sizes.prompt, work.sizes.answer) == pytest.approx((900.0, 100.0), rel=0.01)
    assert [(one.running, one.tokens_per_s) for one in work.decode] == [(4.0, pytest.approx(100.0))]


def test_nothing_is_kept_of_pods_that_are_gone(policy, serving):
    for number in range(50):
        pods = (serving("old", at=number * 5.0), serving(f"pod-{number}", at=number * 5.0))
        policy.decide(Observation(number * 5.0, 2, pods))

    assert policy.remembered == {"old", "pod-49"}


# Whole runs


@pytest.fixture(scope="session")
def engine():
    """An engine that a request of 100 and 50 tokens keeps busy for half a second."""
    cost = IterationCost(
        c0_ms=10, c1_ms_per_seq=0.5, c2_ms_per_ktok=1, a1_ms_per_ktok=400, a2_ms_per_mtok2=0
    )
    return EngineConfig(
        cost=cost,
        num_blocks=201,
        max_model_len=2048,
        max_num_seqs=64,
        max_num_batched_tokens=512,
        prefix_caching=False,
    )


def wave(seed, rates, seconds=300.0):
    """Requests at these rates, one after the other."""
    rng, requests, at = stream(seed, "wave"), [], 0.0
    for number, rate in enumerate(rates, 1):
        while (at := at + rng.expovariate(rate)) < number * seconds:
            requests.append(TraceRequest(at, rng.randint(20, 400), rng.randint(1, 200)))
        at = number * seconds
    return requests


def played(engine, trace, *, seed=0, **changes):
    fleet = Fleet(
        FleetConfig(
            engine=engine,
            start_replicas=4,
            limits=LIMITS,
            cold_start_s=(30.0, 5.0),
            seed=seed,
            **changes,
        ),
        CacheAwarePolicy(LIMITS, shapes=shapes_of(engine)),
    )
    return fleet.run(trace)


def test_it_follows_a_wave_and_loses_nothing(engine):
    score = played(engine, wave(1, (4, 30, 2, 2, 2, 2, 2, 2, 2)))

    directions = {after > before for _, before, after in score.changes}
    assert directions == {True, False}
    assert (score.lost, score.unfinished) == (0, 0)
    assert score.pod_seconds[Stage.CORDONED] > 0
    assert score.pod_seconds[Stage.TERMINATING] == 0


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 1000),
    rates=st.lists(st.sampled_from([0.5, 2.0, 10.0, 20.0]), min_size=3, max_size=4),
    faults=st.lists(
        st.one_of(
            st.builds(MetricsStale, st.floats(0, 900), st.floats(0, 120)),
            st.builds(SlowNode, st.floats(0, 900), st.floats(0, 300)),
            st.builds(SlowStarts, st.floats(0, 900), st.floats(0, 300)),
            st.builds(WritesRefused, st.floats(0, 900), st.floats(0, 120)),
        ),
        max_size=3,
    ),
)
def test_no_request_is_ever_lost_to_a_scale_down(engine, seed, rates, faults):
    score = played(engine, wave(seed, rates), seed=seed, faults=tuple(faults))

    assert score.lost == 0
    assert score.pod_seconds[Stage.TERMINATING] == 0
