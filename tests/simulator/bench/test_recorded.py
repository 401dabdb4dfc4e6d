"""Whether ours fell behind where it stood."""

import pytest

from cacheaware_sim.bench.fronts import Point
from cacheaware_sim.bench.recorded import (
    Position,
    behind,
    noise,
    position_from,
    position_of,
)

FRONT = {"constant-5": Point(90, 5), "constant-6": Point(98, 6), "constant-8": Point(100, 8)}


def position(*ours, right=None):
    """At the front, or so many per cent off it."""
    off = right if right is not None else [0.0] * len(ours)
    return Position(tuple(Point(*one) for one in ours), tuple(off), FRONT)


STOOD = position((98, 6), (98.1, 6.1), (97.9, 5.9), right=[0.0, 0.5, -0.5])


def test_the_same_is_not_behind():
    assert behind("conv", STOOD.first(2), STOOD) is None


@pytest.mark.parametrize(
    ("right", "message"),
    [
        ([1.2, 1.2], None),
        ([9.2, 9.3], "9.0 % of GPU-hours further right, noise is 1.0 %"),
        ([-20, -20], None),
    ],
    ids=["within noise", "behind", "ahead"],
)
def test_further_right_of_the_front_than_noise_is_behind(right, message):
    now = position((98, 6), (98.1, 6.1), right=right)
    line = behind("conv", now, STOOD)

    assert (line is None) if message is None else (message in line and line.startswith("conv: "))


def test_less_attainment_is_behind_though_it_is_on_the_front():
    line = behind("conv", position((94, 5.5), (94, 5.5)), STOOD)

    assert "4.05 points of attainment less, noise is 0.30" in line
    assert "\n" not in line


def test_a_spread_over_seeds_makes_more_of_it_noise():
    stood = position((90, 5), (98, 6), (94, 5.5), right=[0.0, 0.0, 0.0])

    assert behind("conv", position((90, 5), (90, 5)), stood) is None


@pytest.mark.parametrize(
    ("hours", "is_behind"), [(9.0, False), (9.05, False), (9.5, True), (8.0, False)]
)
def test_beyond_the_front_gpu_hours_are_compared_as_they_are(hours, is_behind):
    stood = position((100, 9), (100, 9), right=[None, None])
    now = position((100, hours), (100, hours), right=[None, None])

    assert (behind("conv", now, stood) is not None) is is_behind


def test_beyond_the_front_more_attainment_may_cost_more():
    stood = position((20, 3), (20, 3), right=[None, None])

    assert behind("conv", position((85, 4.9), (85, 4.9), right=[None, None]), stood) is None


def test_where_a_seed_is_another_trace_the_spread_of_a_like_one_is_taken():
    stood = position((90, 5), (50, 6), right=[0.0, 80.0])
    now = position((85, 5), (45, 6), right=[0.0, 80.0])

    assert behind("conv-like", now, stood) is None
    assert "5.00 points of attainment less" in behind("conv-like", now, stood, STOOD)


def test_noise_shrinks_with_seeds_and_has_a_least():
    assert noise([0, 2, 4], 8, 0.1) == pytest.approx(2 * 2 * (2 / 8) ** 0.5)
    assert noise([1, 1, 1], 2, 0.3) == 0.3
    assert noise([1], 1, 0.3) == 0.3


def test_each_seed_stands_against_the_front_of_its_own_seed(planted):
    table = planted(
        {
            "constant-4": [(90, 4), (90, 8)],
            "constant-6": [(98, 6), (98, 12)],
            "cacheaware": [(94, 5.5), (94, 10)],
        }
    )
    found = position_of(table)

    assert found.right_percent == pytest.approx((10, 0))
    assert found.right == pytest.approx(5)
    assert found.point == Point(94, 7.75)
    assert found.front["constant-4"] == Point(90, 6)


def test_what_is_recorded_is_read_back(planted):
    table = planted({"constant-4": [(90, 4)], "constant-6": [(98, 6)], "cacheaware": [(99, 6.5)]})
    found = position_of(table)

    assert position_from(found.as_json()) == found
    assert found.right is None


def test_without_runs_of_ours_there_is_no_position(planted):
    with pytest.raises(ValueError, match="conv: must have runs of cacheaware"):
        position_of(planted({"constant-4": [(90, 4)]}))
