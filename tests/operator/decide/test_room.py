"""Orders that no node has room for."""

from itertools import permutations

import pytest

from cacheaware.decide.cold_start import ColdStart, Stage, Starting
from cacheaware.decide.learned import Learned
from cacheaware.decide.room import Room, roomed

QUICK = Learned(starts=(ColdStart(schedule=1, pull=1, load=30, warm=5),) * 5)
NODE_S = 900.0


def waiting(make, name="z", age_s=NODE_S, stuck="Unschedulable", stage=Stage.SCHEDULE):
    start = Starting(stage, age_s)
    return make.booting(name, age_s=age_s, starting=start, stuck=stuck, pending=True)


def view(make, *waits, serving="ab", learned=QUICK):
    return make.fleet([*(make.pod(n, kv=0.5) for n in serving), *waits], learned=learned)


@pytest.mark.parametrize(
    ("fields", "learned", "counts"),
    [
        ({}, QUICK, True),
        ({"age_s": 899.0}, QUICK, False),
        ({"age_s": 1799.0}, Learned(), False),
        ({"age_s": 1800.0}, Learned(), True),
        ({"stuck": None}, QUICK, False),
        ({"stuck": "SchedulingGated"}, QUICK, False),
        ({"stage": Stage.PULL}, QUICK, False),
    ],
)
def test_a_pod_counts_once_the_scheduler_and_the_node_autoscaler_had_their_time(
    make, fields, learned, counts
):
    room = roomed(None, view(make, waiting(make, **fields), learned=learned), 5000.0)

    assert (room is not None) is counts


def test_what_has_a_node_is_the_ceiling_for_five_minutes(make):
    room = roomed(None, view(make, waiting(make, "y"), waiting(make, "z")), 5000.0)

    assert room == Room(2, 5300.0, 1)
    assert room.fit(5100.0).again_s == 200.0
    assert room.fit(5300.0) is None


def test_where_nodes_take_longer_or_none_comes_the_setting_is_what_a_pod_waits(make):
    fleet = view(make, waiting(make, age_s=30.0))

    assert roomed(None, fleet, 5000.0, node_s=30.0) == Room(2, 5300.0, 1)
    assert roomed(None, fleet, 5000.0, node_s=31.0) is None


def test_pods_that_are_on_their_way_out_are_not_counted_twice(make):
    first = roomed(None, view(make, waiting(make)), 5000.0)

    assert roomed(first, view(make, waiting(make)), 5005.0) == first
    assert roomed(first, view(make), 5010.0) == first


def test_a_node_that_goes_meanwhile_lowers_the_ceiling(make):
    first = roomed(None, view(make, waiting(make)), 5000.0)
    again = roomed(first, view(make, waiting(make), serving="a"), 5005.0)

    assert again == Room(1, 5300.0, 1)


def test_each_failure_waits_twice_as_long_up_to_an_hour(make):
    room, now, pauses = None, 5000.0, []
    for _ in range(6):
        room = roomed(room, view(make, waiting(make)), now)
        pauses.append((room.until - now) / 60)
        now = room.until + 1000.0

    assert pauses == [5, 10, 20, 40, 60, 60]


def test_it_is_forgotten_when_more_have_a_node_and_after_a_quiet_hour(make):
    room = roomed(None, view(make, waiting(make)), 5000.0)

    assert roomed(room, view(make, waiting(make, age_s=10.0)), 5301.0) == room
    assert roomed(room, view(make, serving="abc"), 5301.0) is None
    assert roomed(room, view(make), 8800.0) == room
    assert roomed(room, view(make), 8901.0) is None
    assert roomed(None, view(make), 5000.0) is None


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_order_of_pods_changes_nothing(make, order):
    pods = [make.pod("a", kv=0.5), make.pod("b", kv=0.5), waiting(make, "y"), waiting(make, "z")]

    fleet = make.fleet([pods[i] for i in order], learned=QUICK)

    assert roomed(None, fleet, 5000.0) == Room(2, 5300.0, 1)
