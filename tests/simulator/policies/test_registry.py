from dataclasses import fields, is_dataclass

import pytest

from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.policies.constant import ConstantPolicy, StaticSettings
from cacheaware_sim.policies.policy import Limits
from cacheaware_sim.policies.registry import PEERS, Registry, Setup
from cacheaware_sim.policies.tuned import TUNED
from cacheaware_sim.policies.wva import AT_ONCE
from cacheaware_sim.policies.wva_v1 import WvaV1Settings

NAMES = (
    "constant-N static-peak static-mean hpa-gpu hpa-waiting keda-kv keda-waiting keda-both "
    "knative-kpa aibrix-kpa aibrix-apa wva-v1 wva-v2 dynamo token-velocity"
)


@pytest.fixture
def setup(profile):
    # 4 requests/s for two minutes, twice that in the second, 50 ms of prefill each
    demand = [(at / 8, 1000, 1) for at in range(0, 480, 2)]
    demand += [(at / 8, 1000, 1) for at in range(480, 960)]
    return Setup(
        limits=Limits(1, 40), profile=profile, targets=LatencyTargets(), demand=lambda: iter(demand)
    )


def test_the_names_are_those_of_the_command_line():
    assert Registry().names() == tuple(NAMES.split())


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("variant", ["default", "tuned"])
def test_each_peer_is_made_under_its_name_and_decides(setup, fleet, name, variant):
    policy = Registry().make(name, setup, variant)

    assert policy.name == name
    assert policy.interval_s > 0
    for now in range(0, 60, 2):
        assert 1 <= policy.decide(fleet(now, 8, running=3, usage=0.4)).replicas <= 40


@pytest.mark.parametrize("name", PEERS)
def test_settings_are_frozen_and_the_tuned_ones_differ(name):
    peer = PEERS[name]

    assert is_dataclass(peer.default)
    assert type(peer.default) is type(TUNED[name])
    assert peer.default != TUNED[name]
    with pytest.raises(AttributeError):
        setattr(peer.default, fields(peer.default)[0].name, 1)


def test_a_policy_made_twice_shares_no_history(setup, fleet):
    first, second = (Registry().make("knative-kpa", setup) for _ in range(2))
    for now in range(0, 120, 2):
        first.decide(fleet(now, 1, running=300))

    assert first.decide(fleet(120, 1, running=1)).replicas == 5
    assert second.decide(fleet(120, 1, running=1)).replicas == 1


def test_static_policies_read_the_trace(setup):
    # 0.2 and 0.4 pods' worth; at 0.8: one pod
    assert Registry().make("static-peak", setup).decide(None).replicas == 1
    settings = StaticSettings(bin_s=60, utilization=0.12)
    assert Registry().make("static-peak", setup, settings=settings).decide(None).replicas == 4
    assert Registry().make("static-mean", setup, settings=settings).decide(None).replicas == 3


def test_settings_of_ones_own_are_taken(setup, fleet):
    eager = WvaV1Settings(kv_spare_trigger=0.7, through=AT_ONCE)
    policy = Registry().make("wva-v1", setup, settings=eager)

    assert policy.decide(fleet(0, 4, usage=0.2)).replicas == 5


@pytest.mark.parametrize("replicas", [1, 6, 40])
def test_any_number_within_the_limits_is_a_constant(setup, replicas):
    assert Registry().make(f"constant-{replicas}", setup).decide(None).replicas == replicas


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("constant-0", "constant-0: must be constant-1 to constant-40", id="none"),
        pytest.param("constant-41", "constant-41: must be constant-1 to constant-40", id="many"),
        pytest.param(
            "constant-N", "policy constant-N: must be one of constant-N, ", id="no number"
        ),
        pytest.param("hpa", "policy hpa: must be one of constant-N, static-peak, ", id="unknown"),
    ],
)
def test_a_wrong_name_gets_one_line(setup, name, message):
    with pytest.raises(ValueError, match=message):
        Registry().make(name, setup)


def test_others_register_their_own(setup):
    registry = Registry()
    registry.register("ours", lambda given: ConstantPolicy("ours", 7, given.limits))

    assert registry.names()[-1] == "ours"
    assert registry.make("ours", setup).decide(None).replicas == 7
    assert "ours" not in Registry().names()


@pytest.mark.parametrize("name", ["dynamo", "constant-7"])
def test_a_name_is_registered_once(name):
    with pytest.raises(ValueError, match=f"policy {name}: must be a new name"):
        Registry().register(name, lambda given: ConstantPolicy(name, 1, given.limits))


@pytest.mark.parametrize(
    ("least", "most", "message"),
    [
        (0, 40, "min_replicas 0: must be at least 1"),
        (5, 4, "max_replicas 4: must be at least min_replicas, 5"),
    ],
)
def test_limits_that_make_no_sense_get_one_line(least, most, message):
    with pytest.raises(ValueError, match=message):
        Limits(least, most)
