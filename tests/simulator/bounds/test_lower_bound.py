from itertools import accumulate, product
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheaware_sim.bounds import lower_bound as module
from cacheaware_sim.bounds.lower_bound import lower_bound
from cacheaware_sim.bounds.work import Curves

COLD_S = 10.0


def bound(arrived, due, start_replicas=0.0, min_replicas=0.0):
    curves = Curves(5.0, tuple(map(float, arrived)), tuple(map(float, due)))
    return lower_bound(curves, COLD_S, start_replicas=start_replicas, min_replicas=min_replicas)


@pytest.mark.parametrize(
    ("arrived", "due", "start", "replicas", "pod_seconds"),
    [
        pytest.param([5], [5], 1, [1], 5, id="a pod for a bin"),
        pytest.param([2.5], [2.5], 1, [0.5], 2.5, id="half a pod"),
        pytest.param([5], [5], 0, [1], 5 + 10, id="it has to start"),
        pytest.param([0, 0], [0, 0], 4, [0, 0], 0, id="nothing to do"),
        pytest.param([10, 0], [0, 10], 0, [1, 1], 10 + 10, id="rather one twice than two"),
        pytest.param([10, 0], [10, 0], 0, [2, 0], 10 + 20, id="two as it can't wait"),
        pytest.param([0, 10], [0, 10], 1, [1, 2], 15 + 10, id="work can't be done before it comes"),
        pytest.param([5, 0, 5], [5, 0, 5], 1, [1, 1, 1], 15, id="a short gap is bridged"),
        pytest.param(
            [5, 0, 0, 0, 5], [5, 0, 0, 0, 5], 1, [1, 0, 0, 0, 1], 10 + 10, id="a long gap is not"
        ),
        pytest.param([20, 0, 0, 0], [0, 0, 0, 20], 1, [1, 1, 1, 1], 20, id="a burst may be spread"),
        pytest.param([5, 0], [0, 0], 1, [0, 0], 0, id="what is not due is not done"),
    ],
)
def test_the_optimum_is_the_one_found_by_hand(arrived, due, start, replicas, pod_seconds):
    found = bound(arrived, due, start)

    assert found.pod_seconds == pytest.approx(pod_seconds)
    assert found.replicas == pytest.approx(replicas)
    assert found.starting_seconds == pytest.approx(pod_seconds - 5 * sum(replicas))


def test_pods_that_must_be_there_cost_without_work():
    assert bound([0, 0, 0], [0, 0, 0], 2, 2).pod_seconds == pytest.approx(30)


def test_sums_that_differ_in_the_last_digit_do_not_contradict_each_other():
    assert sum([0.1, 0.2, 0.3]) > sum([0.3, 0.2, 0.1])
    assert bound([0.3, 0.2, 0.1, 0], [0.1, 0.2, 0.3, 0], 1).pod_seconds == pytest.approx(0.6)


def whole_pods(arrived, due, start):
    """The least cost of a whole number of pods in each bin, by trying all."""
    feasible = []
    for replicas in product(range(4), repeat=len(arrived)):
        done, in_time = 0.0, True
        for pods, came, needed in zip(replicas, accumulate(arrived), accumulate(due), strict=True):
            done = min(came, done + 5.0 * pods)
            in_time = in_time and done >= needed - 1e-9
        if in_time:
            starts = sum(max(0, b - a) for a, b in zip((start, *replicas), replicas, strict=False))
            feasible.append(5.0 * sum(replicas) + COLD_S * starts)
    return min(feasible)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 10), st.integers(0, 3)), min_size=1, max_size=5),
    st.integers(0, 3),
)
def test_no_fleet_of_whole_pods_costs_less(work, start):
    bins = len(work)
    arrived, due = [0.0] * bins, [0.0] * bins
    for at, (seconds, patience) in enumerate(work):
        arrived[at] += seconds
        due[min(bins - 1, at + patience)] += seconds

    found = bound(arrived, due, start)

    assert sum(due) - 1e-6 <= found.pod_seconds <= whole_pods(arrived, due, start) + 1e-6


def test_a_solver_that_gives_up_is_no_bound(monkeypatch):
    gave_up = SimpleNamespace(success=False, message="iteration limit reached")
    monkeypatch.setattr(module, "linprog", lambda **_: gave_up)

    with pytest.raises(ArithmeticError, match="iteration limit reached"):
        bound([5], [5])
