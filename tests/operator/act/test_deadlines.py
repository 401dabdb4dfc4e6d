"""How long a pod really has, told by what we have seen and not by clocks that differ."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cacheaware.act.deadlines import PAUSE_SECONDS, Going
from cacheaware.act.outcome import Outcome
from cacheaware.pods import PodRecord

POD = PodRecord(namespace="demo", name="p", uid="u", labels={}, ip="10.0.0.1", sidecar_port=9440)
API = 1_000_000.0
"""When it was deleted, by the API's clock."""
GOING = replace(POD, terminating=True, deleted_at=API + 60, grace_s=60)


def seen(*looks):
    found = Going()
    for record, now in looks:
        found.see([record], now)
    return found


@pytest.mark.parametrize(
    ("ahead", "left"),
    [(0.0, 57.0), (-3600.0, 58.0), (3600.0, 53.0), (2.0, 55.0)],
    ids=["same clock", "far behind", "far ahead", "a little ahead"],
)
def test_a_clock_that_differs_moves_it_by_a_round_at_most(ahead, left):
    """Alive at 100, deleted at 104, noticed at 105; now it is 107."""
    found = seen((POD, 100.0), (GOING, 105.0))
    assert found.left(GOING, 107.0, API + 3 + ahead) == left


@given(
    st.floats(0, 600), st.floats(0, 20), st.floats(0, 20), st.floats(0, 700), st.floats(-1e7, 1e7)
)
def test_it_is_never_off_by_more_than_the_time_between_two_looks(grace, dies, rest, later, skew):
    going = replace(GOING, grace_s=grace, deleted_at=API + grace)
    found = seen((POD, 0.0), (going, dies + rest))
    now = dies + rest + later
    told = found.left(going, now, API + now - dies + skew)
    assert abs(told - max(0.0, grace - (now - dies))) <= dies + rest + 1e-3
    assert told >= 0


def test_a_pod_that_was_not_seen_alive_keeps_what_its_template_says():
    assert seen((GOING, 105.0)).due([GOING], 105.0) == []


@pytest.mark.parametrize(
    "change",
    [{"ip": None}, {"sidecar_port": None}, {"grace_s": None}, {"deleted_at": None}],
    ids=lambda one: next(iter(one)),
)
def test_one_that_cannot_be_told_is_not(change):
    odd = replace(GOING, **change)
    assert seen((POD, 1.0), (odd, 2.0)).due([odd], 2.0) == []


def test_it_is_told_once_and_again_when_the_end_is_moved():
    found = seen((POD, 1.0), (GOING, 2.0))
    assert found.due([GOING], 2.0) == [GOING]
    found.note(GOING, Outcome(200), 2.0)
    assert found.due([GOING], 3.0) == []
    sooner = replace(GOING, grace_s=10, deleted_at=API + 10)
    assert found.due([sooner], 4.0) == [sooner]
    assert found.left(sooner, 4.0, API + 3) == 7


@pytest.mark.parametrize(
    ("status", "pause"), [(409, 0.0), (403, PAUSE_SECONDS), (0, PAUSE_SECONDS)]
)
def test_it_is_told_again_where_it_was_not_heard(status, pause):
    found = seen((POD, 1.0), (GOING, 2.0))
    found.note(GOING, Outcome(status, "no"), 2.0)
    assert (found.due([GOING], 2.0) == []) is (pause > 0)
    assert found.due([GOING], 2.0 + pause) == [GOING]


def test_pods_that_are_gone_are_forgotten():
    found = seen((POD, 1.0), (GOING, 2.0))
    found.note(GOING, Outcome(403), 2.0)
    found.note(GOING, Outcome(200), 2.0)
    found.see([], 3.0)
    assert (found.alive, found.noticed, found.told, found.paused) == ({}, {}, {}, {})
