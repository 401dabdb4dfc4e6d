"""The geometric mean against the best peers, with answers that are known."""

import pytest

from cacheaware_sim.bench.bootstrap import (
    Field,
    against_best_peer,
    against_front,
    bootstrapped,
    geometric_mean,
)
from cacheaware_sim.bench.fronts import Point

CONSTANTS = {
    "constant-5": [Point(90, 5.0)] * 3,
    "constant-6": [Point(98, 6.0)] * 3,
    "constant-9": [Point(100, 9.0)] * 3,
}


def field(*ours, peers=None, constants=CONSTANTS):
    return Field(ours=[Point(*one) for one in ours], peers=peers or {}, constants=constants)


SURE = [(99, 4.0)] * 3


def test_the_best_peer_is_the_cheapest_that_attains_as_much():
    peers = {
        "dear": [Point(99.9, 10)] * 3,
        "right": [Point(99, 8)] * 3,
        "poor": [Point(90, 1)] * 3,
    }
    ratio = against_best_peer(field(*SURE, peers=peers), range(3))
    assert (ratio.value, ratio.against) == (0.5, "right")


@pytest.mark.parametrize(
    ("attainment", "against"),
    [(98.91, "near"), (98.89, "constant-N")],
    ids=["a tenth of a point is equal", "more than that is not"],
)
def test_a_peer_that_is_nearly_as_good_counts_as_equal(attainment, against):
    peers = {"near": [Point(attainment, 8)] * 3}
    assert against_best_peer(field(*SURE, peers=peers), range(3)).against == against


def test_where_no_peer_comes_up_the_front_takes_its_place():
    peers = {"poor": [Point(50, 1)] * 3}
    # half way from 98 to 100 %: 7.5
    ratio = against_best_peer(field(*SURE, peers=peers), range(3))
    assert ratio == against_front(field(*SURE), range(3))
    assert ratio.value == pytest.approx(4 / 7.5)


def test_what_neither_peer_nor_front_reaches_is_unknown():
    beyond = field((99, 4.0), constants={"constant-5": [Point(90, 5.0)]})
    assert against_best_peer(beyond, range(1)) is None
    assert bootstrapped([beyond], peers=True) is None


def test_the_geometric_mean_of_twice_and_half_is_one():
    assert geometric_mean([2.0, 0.5, 1.0]) == pytest.approx(1)


def test_without_spread_the_interval_is_the_mean():
    peers = {"a": [Point(99, 8)] * 3}
    mean = bootstrapped([field(*SURE, peers=peers)], peers=True)
    assert (mean.value, mean.low, mean.high) == pytest.approx((0.5, 0.5, 0.5))
    assert mean.excludes_one


def test_a_win_in_one_seed_of_three_is_no_result():
    peers = {"a": [Point(99, 5.0)] * 3}
    mean = bootstrapped([field((99, 4.0), (99, 6.0), (99, 5.2), peers=peers)], peers=True)
    assert mean.low < 1 < mean.high
    assert not mean.excludes_one


def test_the_interval_ends_where_seeds_drawn_anew_leave_it():
    # of two seeds: both the first in a quarter of the draws, both the second in a quarter
    peers = {"a": [Point(99, 4.0)] * 2}
    two = field((99, 2.0), (99, 6.0), peers=peers, constants={})
    mean = bootstrapped([two], peers=True)
    assert (mean.value, mean.low, mean.high) == pytest.approx((1.0, 0.5, 1.5))


def test_seeds_are_drawn_for_all_policies_together():
    # dear seeds are dear for both: the ratio is the same in each of them
    peers = {"a": [Point(99, 4.0), Point(99, 8.0), Point(99, 12.0)]}
    mean = bootstrapped([field((99, 2.0), (99, 4.0), (99, 6.0), peers=peers)], peers=True)
    assert (mean.low, mean.high) == pytest.approx((0.5, 0.5))


def test_a_seed_is_a_result():
    some = [field((99, 4.0), (98.5, 6.0), (99.5, 5.2))]
    again, other = (bootstrapped(some, peers=False, seed=seed, draws=9) for seed in (3, 4))
    assert bootstrapped(some, peers=False, seed=3, draws=9) == again != other


def test_workloads_count_alike():
    one = field(*SURE, peers={"a": [Point(99, 8)] * 3})
    other = field((99, 40.0), peers={"a": [Point(99, 20)]})
    assert bootstrapped([one, other], peers=True).value == pytest.approx(1)


def test_a_workload_with_nothing_to_compare_with_is_left_out():
    beyond = field((99, 4.0), constants={})
    known = field(*SURE, peers={"a": [Point(99, 8)] * 3})
    assert bootstrapped([beyond, known], peers=True).value == pytest.approx(0.5)
