"""How two timelines are compared: no cluster needed."""

import math
from dataclasses import replace

import pytest
from tests.e2e.trace.agreement import Moment, agreement, on_grid

SEEN = Moment(at_s=0.0, replicas=2, pods=2, serving=2, running=10.0, waiting=1.0)


def timeline(*replicas, every=5.0, **fields):
    return [
        replace(SEEN, at_s=every * number, replicas=count, pods=count, **fields)
        for number, count in enumerate(replicas, 1)
    ]


STEPS = timeline(*[2] * 24, *[4] * 48, *[3] * 48)


def test_a_timeline_agrees_with_itself():
    found = agreement(STEPS, STEPS)

    assert found.misses() == []
    assert (found.within_one, found.same, found.shift_s) == (1.0, 1.0, 0.0)
    assert found.replicas.cluster == found.replicas.simulator == 3.2
    assert found.pod_seconds.apart == 0


@pytest.mark.parametrize(("steps", "late_s"), [(1, 5.0), (4, 20.0), (-2, -10.0)])
def test_one_that_is_up_to_20_s_later_or_sooner_is_the_same(steps, late_s):
    replicas = [one.replicas for one in STEPS]
    padded = [*[2] * max(0, steps), *replicas, *[3] * max(0, -steps)]
    moved = timeline(*padded[max(0, -steps) :][: len(STEPS)])

    found = agreement(moved, STEPS)

    assert (found.same, found.shift_s) == (1.0, late_s)


def test_one_that_is_a_minute_later_is_not():
    late = timeline(*[2] * 12, *[one.replicas for one in STEPS[:-12]])

    assert agreement(late, STEPS).same < 0.9


def test_two_more_replicas_for_a_third_of_the_time_are_out_of_tolerance():
    more = timeline(*[one.replicas + (2 if 24 <= n < 64 else 0) for n, one in enumerate(STEPS)])

    mean, seconds, moments = agreement(more, STEPS).misses()

    assert "mean replicas: +20.8%" in mean
    assert "pod-seconds: +20.8%" in seconds
    assert "replicas within one in" in moments


def test_a_fleet_that_never_shrinks_is_none_that_does():
    reaches_its_most = timeline(*[2] * 24, *[4] * 96)

    (miss,) = agreement(reaches_its_most, timeline(*[2] * 24, *[4] * 94, *[3] * 2)).misses()

    assert miss == "only one of the two has shrunk"


def test_a_fleet_that_grows_half_a_minute_later_is_told():
    late = timeline(*[2] * 30, *[one.replicas for one in STEPS[30:]])

    (miss,) = agreement(late, STEPS).misses()

    assert miss == "first growth at 155 and 125 s, must be within 20 s"


def test_fleets_that_never_change_agree():
    still = timeline(*[2] * len(STEPS))

    found = agreement(still, still)

    assert found.misses() == []
    assert math.isnan(found.grew_s.cluster)
    assert agreement(STEPS, still).misses()[-2].startswith("first growth at 125 and nan s")


def test_the_same_mean_with_another_shape_is_out_of_tolerance():
    found = agreement(timeline(*[1] * 60, *[5] * 60), timeline(*[3] * 120))

    assert found.replicas.apart == 0
    assert "within one in 0%" in found.misses()[0]


def test_pods_that_are_asked_for_no_more_still_cost():
    lingering = [replace(one, pods=one.pods + 1) for one in STEPS]

    (miss,) = agreement(lingering, STEPS).misses()

    assert "pod-seconds" in miss


def test_what_no_engine_told_is_no_zero():
    unknown = [replace(one, running=None) for one in STEPS[:60]] + list(STEPS[60:])

    assert agreement(unknown, STEPS).running.cluster == 10.0
    assert math.isnan(agreement(timeline(*[2] * 20, running=None), STEPS[:20]).running.cluster)


def test_a_step_shows_what_was_last_seen():
    seen = timeline(2, 3, 4, every=4.0)

    assert [one.replicas for one in on_grid(seen, 15.0)] == [2, 3, 4]


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        ([], "must begin by 5 s"),
        (timeline(2, 2, every=6.0), "must begin by 5 s"),
        (timeline(2, 2, 2), "nothing seen from 15 to 60 s"),
        ([*timeline(2), replace(SEEN, at_s=58.0)], "nothing seen from 5 to 58 s"),
    ],
)
def test_a_timeline_with_a_hole_is_refused(seen, message):
    with pytest.raises(ValueError, match=message):
        on_grid(seen, 60.0)


@pytest.mark.parametrize("moments", [STEPS[:-1], STEPS[:8]])
def test_timelines_of_different_or_no_length_are_refused(moments):
    other = STEPS if len(moments) > 8 else moments

    with pytest.raises(ValueError, match="must be equally many, and more than 8"):
        agreement(moments, other)
