import pytest

from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies.policy import Limits
from cacheaware_sim.policies.wva import AT_ONCE
from cacheaware_sim.policies.wva_v1 import (
    DEFAULT,
    Peak,
    WvaV1Policy,
    WvaV1Settings,
    in_transition,
    step,
)

TO_40 = Limits(1, 40)
EAGER = WvaV1Settings(loop_s=30, through=AT_ONCE)


@pytest.mark.parametrize(
    ("peaks", "pods"),
    [
        pytest.param([(0.72, 0)] * 4, 1, id="spare of 0.08 is under 0.10"),
        pytest.param([(0.6, 0)] * 4, 0, id="spare of 0.20 keeps; with one less 0.8 - 0.8 = 0"),
        pytest.param([(0.5, 0)] * 4, -1, id="with one less 0.8 - 0.667 = 0.133 stay"),
        pytest.param([(0.4, 2.5)] * 4, 1, id="spare of 2.5 waiting is under 3"),
        pytest.param([(0.1, 2)] * 2, 0, id="3 waiting spare; with one less 1"),
        pytest.param([(0.1, 1)] * 2, -1, id="with one less 3 waiting spare: just enough"),
        pytest.param([(0.8, 0)] * 4, 1, id="all saturated at 0.80"),
        pytest.param([(0.1, 5)] * 4, 1, id="all saturated at 5 waiting"),
        pytest.param([(0.9, 9), (0.9, 9), (0.2, 0)], 0, id="one free pod can't be spared"),
        pytest.param([(0.9, 9), (0.2, 0), (0.2, 0)], -1, id="only free pods count: 0.8 - 0.4"),
        pytest.param([(0.1, 0)], 0, id="the last pod stays"),
        pytest.param([], 0, id="nobody reports"),
    ],
)
def test_the_peaks_ask_for(peaks, pods):
    assert step([Peak(*each) for each in peaks], DEFAULT) == pods


def test_an_empty_config_map_grows_for_ever():
    empty = WvaV1Settings(
        kv_threshold=0, queue_threshold=0, kv_spare_trigger=0.1, queue_spare_trigger=3
    )

    assert step([Peak(0.0, 0.0)] * 4, empty) == 1


@pytest.mark.parametrize(
    ("desired", "current", "reporting", "transition"),
    [
        pytest.param(None, 4, 4, False, id="at first"),
        pytest.param(4, 4, 4, False, id="carried out"),
        pytest.param(5, 4, 4, True, id="not carried out yet"),
        pytest.param(5, 5, 4, True, id="a pod does not report yet"),
        pytest.param(4, 4, 5, True, id="one too many reports"),
    ],
)
def test_the_fleet_is_in_transition(desired, current, reporting, transition):
    assert in_transition(desired, current, reporting) is transition


def run(policy, obey, fleet_at, replicas, until):
    """Replicas at each 5 s; every pod serves at once."""
    history = {}
    for now in range(0, until + 1, 5):
        replicas = obey(policy, fleet_at(now, replicas)).replicas
        history[now] = replicas
    return history


def test_the_chart_adds_one_pod_each_five_minutes(fleet, obey):
    history = run(
        WvaV1Policy(DEFAULT, TO_40), obey, lambda now, n: fleet(now, n, usage=0.75), 4, 1200
    )

    assert [history[at] for at in (0, 225, 240, 495, 540, 1200)] == [4, 4, 5, 5, 6, 8]


def test_tuned_it_adds_one_pod_each_30_seconds(fleet, obey):
    history = run(WvaV1Policy(EAGER, TO_40), obey, lambda now, n: fleet(now, n, usage=0.75), 4, 90)

    assert [history[at] for at in (0, 30, 60, 90)] == [5, 6, 7, 8]


def test_with_a_tolerance_it_stays_at_ten_pods_for_ever_and_without_it_does_not(fleet, obey):
    def full(now, pods):
        return fleet(now, pods, usage=0.9)

    stuck = run(WvaV1Policy(DEFAULT, TO_40), obey, full, 9, 1800)
    free = run(WvaV1Policy(EAGER, TO_40), obey, full, 9, 300)

    assert stuck[1800] == 10
    assert free[300] == 20


def test_a_pod_that_starts_holds_everything(fleet, obey):
    policy = WvaV1Policy(EAGER, TO_40)

    assert obey(policy, fleet(0, 4, loading=1, usage=0.75)).replicas == 5
    assert obey(policy, fleet(30, 4, loading=1, usage=0.75)).replicas == 5
    assert obey(policy, fleet(60, 5, usage=0.75)).replicas == 6


@pytest.mark.parametrize(
    ("peak_at", "replicas"),
    [
        pytest.param(35, 5, id="55 s ago"),
        pytest.param(30, 4, id="60 s ago"),
    ],
)
def test_a_peak_of_the_last_minute_counts(fleet, obey, peak_at, replicas):
    policy = WvaV1Policy(WvaV1Settings(loop_s=90, through=EAGER.through), TO_40)
    for now in range(0, 90, 5):
        obey(policy, fleet(now, 4, usage=0.75 if now == peak_at else 0.6))

    assert obey(policy, fleet(90, 4, usage=0.6)).replicas == replicas


def test_a_gauge_that_is_missing_counts_as_0(serving, obey):
    policy = WvaV1Policy(EAGER, TO_40)
    pods = (serving("a", usage=0.75), serving("b", usage=None, waiting=None))

    # mean 0.375: one pod less would be at 0.75, spare 0.05
    assert obey(policy, Observation(0, 2, pods)).replicas == 2


def test_silence_changes_nothing(fleet, obey):
    policy = WvaV1Policy(EAGER, TO_40)
    for now in range(0, 600, 5):
        assert obey(policy, fleet(now, 8, silent=True)).replicas == 8


def test_the_limits_hold(fleet, obey):
    policy = WvaV1Policy(EAGER, Limits(3, 4))

    assert run(policy, obey, lambda now, n: fleet(now, n, usage=0.9), 4, 120)[120] == 4
    idle = WvaV1Policy(EAGER, Limits(3, 4))
    assert run(idle, obey, lambda now, n: fleet(now, n, usage=0.0), 4, 120)[120] == 3
