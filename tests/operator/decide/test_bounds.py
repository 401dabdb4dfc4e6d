"""Floors and ceilings: which wish holds, and what is said of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheaware.decide.bounds import bounds_of
from cacheaware.decide.circumstances import Circumstances, Fit, Floor, Reading, Wake
from cacheaware.decide.fleet import FleetView
from cacheaware.decide.policy import Activation, Policy

EIGHT = Floor(4, "'0 8 * * 1-5' (UTC)")
QUIET = Wake(Reading(0.0), quiet_s=900.0)
WAKING = Activation(threshold=0, idle_seconds=600)


def bounds(policy, **around):
    view = FleetView(namespace="llm", name="chat", spec_replicas=1)
    return bounds_of(policy, FleetView(**{**fields(view), "around": Circumstances(**around)}))


def fields(view):
    return {name: getattr(view, name) for name in type(view).__slots__}


def brief(found):
    floor, ceiling = found.floor, found.ceiling
    return (floor.replicas, floor.name, ceiling.replicas, ceiling.name)


@pytest.mark.parametrize(
    ("policy", "around", "expected"),
    [
        ({}, {}, (1, "minReplicas", 10, "maxReplicas")),
        ({}, {"scheduled": EIGHT}, (4, "schedule", 10, "maxReplicas")),
        ({"min_replicas": 5}, {"scheduled": EIGHT}, (5, "minReplicas", 10, "maxReplicas")),
        ({"max_replicas": 3}, {"scheduled": EIGHT}, (3, "schedule", 3, "maxReplicas")),
        ({"max_gpus": 20}, {"gpus_per_replica": 8}, (1, "minReplicas", 2, "maxGpus")),
        ({"max_gpus": 200}, {"gpus_per_replica": 8}, (1, "minReplicas", 10, "maxReplicas")),
        ({"max_gpus": 4}, {"gpus_per_replica": 8}, (1, "minReplicas", 1, "maxGpus")),
        ({"max_gpus": 20}, {}, (1, "minReplicas", 10, "maxReplicas")),
        ({}, {"fit": Fit(3, 60)}, (1, "minReplicas", 3, "PodsUnschedulable")),
        ({"min_replicas": 4}, {"fit": Fit(3, 60)}, (4, "minReplicas", 4, "PodsUnschedulable")),
        ({"min_replicas": 0}, {}, (1, "activation", 10, "maxReplicas")),
        (
            {"min_replicas": 0, "activation": WAKING},
            {"wake": QUIET},
            (0, "minReplicas", 10, "maxReplicas"),
        ),
        (
            {"min_replicas": 0, "activation": WAKING},
            {"wake": QUIET, "scheduled": EIGHT},
            (4, "schedule", 10, "maxReplicas"),
        ),
    ],
)
def test_the_highest_floor_and_the_lowest_ceiling_hold(policy, around, expected):
    assert brief(bounds(Policy(**policy), **around)) == expected


@pytest.mark.parametrize(
    ("wake", "words"),
    [
        (None, "without an activation signal"),
        (Wake(Reading(detail="queue: no answer")), "queue: no answer"),
        (Wake(Reading(0.0)), "there are requests, or it is not known"),
        (Wake(Reading(0.0), quiet_s=599.0), "quiet for 600 s"),
    ],
)
def test_the_last_replica_stays_and_the_reason_is_told(wake, words):
    found = bounds(Policy(min_replicas=0, activation=WAKING), wake=wake)

    assert brief(found)[:2] == (1, "activation")
    assert words in found.floor.told


def test_a_floor_that_begins_later_says_when():
    floor = bounds(Policy(), scheduled=Floor(4, "'0 8 * * *' (UTC)", 120.0)).floor

    assert floor.told == "schedule '0 8 * * *' (UTC) wants 4, from in 120 s on"


CIRCUMSTANCES = st.builds(
    Circumstances,
    scheduled=st.none() | st.builds(Floor, st.integers(1, 20), st.just("x")),
    gpus_per_replica=st.none() | st.integers(0, 16),
    fit=st.none() | st.builds(Fit, st.integers(0, 20), st.just(1.0)),
    wake=st.none()
    | st.builds(Wake, st.just(Reading(0.0)), st.none() | st.floats(0, 1200), st.just(False)),
)
POLICIES = st.builds(
    Policy,
    min_replicas=st.integers(0, 5),
    max_replicas=st.integers(5, 20),
    max_gpus=st.none() | st.integers(1, 100),
    activation=st.none() | st.just(WAKING),
)


@settings(max_examples=300, deadline=None)
@given(policy=POLICIES, around=CIRCUMSTANCES, replicas=st.integers(0, 30), more=st.integers(1, 20))
def test_bounds_never_cross_and_a_floor_only_ever_raises(policy, around, replicas, more):
    view = FleetView(namespace="llm", name="chat", spec_replicas=1, around=around)
    found = bounds_of(policy, view)
    raised = Circumstances(**{**fields(around), "scheduled": Floor(more, "x")})
    without = Circumstances(**{**fields(around), "scheduled": None})

    assert 0 <= found.floor.replicas <= found.ceiling.replicas <= policy.max_replicas
    assert found.floor.replicas <= found.within(replicas) <= found.ceiling.replicas
    with_floor = bounds_of(policy, FleetView(**{**fields(view), "around": raised}))
    free = bounds_of(policy, FleetView(**{**fields(view), "around": without}))
    assert with_floor.within(replicas) >= free.within(replicas)
