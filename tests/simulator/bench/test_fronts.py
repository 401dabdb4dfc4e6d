"""Where a policy stands against the constants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheaware_sim.bench.fronts import Point, dominates, front_of, gpu_hours_at, right_of_front

FRONT = [Point(50, 2), Point(90, 4), Point(98, 6), Point(99.5, 10)]
POINTS = st.builds(Point, st.floats(0, 100), st.floats(0.1, 100))


@pytest.mark.parametrize(
    ("attainment", "hours"),
    [
        pytest.param(90, 4, id="at a constant"),
        pytest.param(94, 5, id="half way between two"),
        pytest.param(50, 2, id="at the least"),
        pytest.param(99.5, 10, id="at the most"),
        pytest.param(49.9, None, id="below all of them nothing is known"),
        pytest.param(99.6, None, id="nor above"),
    ],
)
def test_the_front_is_a_line_from_constant_to_constant(attainment, hours):
    assert gpu_hours_at(FRONT, attainment) == (None if hours is None else pytest.approx(hours))


def test_a_constant_that_is_dearer_and_worse_than_another_is_not_on_the_front():
    assert front_of([*FRONT, Point(89, 5)]) == tuple(FRONT)


def test_a_front_of_one_point_is_known_there_alone():
    assert gpu_hours_at([Point(99, 6)], 99) == 6
    assert gpu_hours_at([Point(99, 6)], 98.9) is None


def test_no_constants_are_no_front():
    assert gpu_hours_at([], 99) is None
    assert right_of_front(Point(99, 6), []) is None


@pytest.mark.parametrize(("hours", "right"), [(5, 0), (6, 20), (4, -20)])
def test_right_of_the_front_is_dearer_in_per_cent(hours, right):
    assert right_of_front(Point(94, hours), FRONT) == pytest.approx(right)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param((99, 5), (98, 5), True, id="better at the same cost"),
        pytest.param((99, 5), (99, 6), True, id="as good for less"),
        pytest.param((99, 5), (99, 5), False, id="the same"),
        pytest.param((99, 6), (98, 5), False, id="better and dearer"),
    ],
)
def test_who_is_at_least_as_good_in_both_and_better_in_one_dominates(one, other, expected):
    assert dominates(Point(*one), Point(*other)) is expected


@given(st.lists(POINTS, min_size=1, max_size=12))
def test_nobody_that_was_measured_is_left_of_the_front(points):
    for point in points:
        right = right_of_front(point, points)
        assert right is None or right >= -1e-9


@given(st.lists(POINTS, min_size=2, max_size=12), st.floats(0, 100), st.floats(0, 100))
def test_more_attainment_never_costs_less_on_the_front(points, one, other):
    low, high = (gpu_hours_at(points, at) for at in sorted((one, other)))
    assert low is None or high is None or low <= high * (1 + 1e-9)
