import pytest

from cacheaware_sim.fleet.scraped import Observation
from cacheaware_sim.policies.aibrix import (
    DEFAULT,
    AibrixPolicy,
    AibrixSettings,
    apa_replicas,
    cooled_down,
    kpa_replicas,
    measured,
)
from cacheaware_sim.policies.hpa_behavior import Recommended
from cacheaware_sim.policies.policy import Limits

TO_40 = Limits(1, 40)
MENDED_KPA = AibrixSettings(fleet_sum=True, unknown_is_zero=False, shrink_to_highest=True)
MENDED_APA = AibrixSettings(
    up_tolerance=0.1, down_tolerance=0.2, unknown_is_zero=False, shrink_to_highest=True
)


@pytest.mark.parametrize(
    ("current", "stable", "panic", "replicas"),
    [
        pytest.param(8, 0.5, 0.5, 8, id="on target nothing changes"),
        pytest.param(8, 0.55, 0.55, 8, id="1.1 is within the tolerance"),
        pytest.param(8, 0.45, 0.45, 8, id="0.9 is within the tolerance"),
        pytest.param(1, 1.0, 1.0, 2, id="a full pod asks for two"),
        pytest.param(8, 1.0, 1.0, 4, id="eight full pods ask for two and lose half: the mean"),
        pytest.param(8, 0.1, 0.15, 4, id="at most half goes at once"),
        pytest.param(2, 0.1, 0.1, 1, id="to one"),
        pytest.param(2, 0.2, 0.5, 2, id="panic above twice the stable window: n by its value"),
        pytest.param(2, 0.25, 0.5, 1, id="just twice is no panic"),
        pytest.param(3, 0.0, 0.0, 1, id="nothing at all is panic, and one pod"),
        pytest.param(0, 0.9, 0.9, 1, id="from none to one at a time"),
    ],
)
def test_the_kpa_as_shipped_asks_for(current, stable, panic, replicas):
    assert kpa_replicas(current, stable, panic, DEFAULT) == replicas


@pytest.mark.parametrize(
    ("current", "stable", "panic", "replicas"),
    [
        pytest.param(8, 6.0, 6.0, 12, id="a sum of 6 at 0.5"),
        pytest.param(4, 6.0, 6.0, 8, id="at most double"),
        pytest.param(8, 2.0, 6.0, 12, id="panic"),
        pytest.param(8, 3.0, 6.0, 6, id="no panic"),
    ],
)
def test_the_kpa_on_the_fleets_sum_asks_for(current, stable, panic, replicas):
    assert kpa_replicas(current, stable, panic, MENDED_KPA) == replicas


@pytest.mark.parametrize(
    ("current", "value", "settings", "replicas"),
    [
        pytest.param(8, 0.55, DEFAULT, 8, id="1.1 is within the tolerance"),
        pytest.param(8, 0.6, DEFAULT, 10, id="1.2 is not: ceil(9.6)"),
        pytest.param(8, 0.45, DEFAULT, 8, id="0.9 is within the tolerance"),
        pytest.param(8, 0.44, DEFAULT, 8, id="0.88 is not, but ceil(7.04) is 8"),
        pytest.param(8, 0.43, DEFAULT, 7, id="0.86: ceil(6.88)"),
        pytest.param(8, 0.43, MENDED_APA, 8, id="0.86 is within the white paper's"),
        pytest.param(8, 0.1, DEFAULT, 4, id="at most half goes at once"),
        pytest.param(3, 0.0, DEFAULT, 1, id="half of three is one"),
        pytest.param(8, 1.0, DEFAULT, 16, id="at most double"),
    ],
)
def test_apa_asks_for(current, value, settings, replicas):
    assert apa_replicas(current, value, settings) == replicas


@pytest.mark.parametrize(
    ("new", "settings", "replicas"),
    [
        pytest.param(9, DEFAULT, 9, id="growth does not wait"),
        pytest.param(4, DEFAULT, 2, id="as shipped a shrink goes to the lowest"),
        pytest.param(4, MENDED_KPA, 6, id="turned, it stays while the window has the current"),
        pytest.param(6, DEFAULT, 6, id="no change"),
        pytest.param(9, AibrixSettings(up_cooldown_s=60), 12, id="a window of growth: the highest"),
    ],
)
def test_after_12_and_2_the_windows_leave_6_pods_at(new, settings, replicas):
    past = (Recommended(950, 12), Recommended(990, 2))

    assert cooled_down(6, Recommended(1000, new), past, settings) == replicas


def test_what_is_300_seconds_old_is_out_of_the_window():
    past = (Recommended(0, 1),)

    assert cooled_down(6, Recommended(299, 5), past, DEFAULT) == 1
    assert cooled_down(6, Recommended(300, 5), past, DEFAULT) == 5


def test_a_pod_that_does_not_answer_counts_as_0_in_the_shipped_mean(serving, starting):
    pods = (serving("a", usage=0.8), serving("b", silent=True), starting(), serving("c", usage=0.4))

    assert measured(pods, DEFAULT) == pytest.approx(0.3)
    assert measured(pods, MENDED_APA) == pytest.approx(0.6)
    assert measured(pods, MENDED_KPA) == pytest.approx(1.2)


def test_without_any_answer_only_zeros_are_known(serving):
    pods = (serving("a", silent=True),)

    assert measured(pods, DEFAULT) == 0
    assert measured(pods, MENDED_APA) is None
    assert measured((), DEFAULT) is None


def test_the_shipped_kpa_cannot_keep_a_full_fleet(fleet):
    policy = AibrixPolicy("aibrix-kpa", DEFAULT, TO_40)
    replicas = 8
    for now in range(0, 60, 10):
        replicas = policy.decide(fleet(now, replicas, usage=0.95)).replicas

    assert replicas == 2


def test_the_kpa_on_the_sum_doubles_a_full_fleet(fleet):
    policy = AibrixPolicy("aibrix-kpa", MENDED_KPA, TO_40)

    assert policy.decide(fleet(0, 8, usage=1.0)).replicas == 16


def test_apa_grows_by_the_mean_of_30_seconds(fleet):
    policy = AibrixPolicy("aibrix-apa", DEFAULT, TO_40)
    policy.decide(fleet(0, 8, usage=0.5))
    policy.decide(fleet(10, 8, usage=0.5))

    # mean(0.5, 0.5, 0.8) = 0.6: ceil(8 x 1.2)
    assert policy.decide(fleet(20, 8, usage=0.8)).replicas == 10


def test_silence_shrinks_the_shipped_apa_and_holds_the_tuned_one(fleet):
    shipped = AibrixPolicy("aibrix-apa", DEFAULT, TO_40)
    tuned = AibrixPolicy("aibrix-apa", MENDED_APA, TO_40)

    assert shipped.decide(fleet(0, 8, silent=True)).replicas == 4
    assert tuned.decide(fleet(0, 8, silent=True)).replicas == 8


def test_the_limits_hold(fleet):
    policy = AibrixPolicy("aibrix-apa", DEFAULT, Limits(6, 10))

    assert policy.decide(fleet(0, 8, usage=0.0)).replicas == 6
    assert policy.decide(Observation(10, 8, fleet(10, 8, usage=1.0).pods)).replicas == 8
    assert policy.decide(Observation(40, 8, fleet(40, 8, usage=1.0).pods)).replicas == 10
