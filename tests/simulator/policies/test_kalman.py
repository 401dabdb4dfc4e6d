import pytest

from cacheaware_sim.policies.kalman import PLANNER_NOISE, Forecaster


def forecasts(values):
    forecaster = Forecaster(PLANNER_NOISE)
    result = []
    for value in values:
        forecaster.observe(value)
        result.append(forecaster.predict())
    return result


def test_the_second_observation_is_weighed_by_hand():
    # one step after 10: level 10, variances 2001 and 1000.1, covariance 1000;
    # error 10, gains 2001/2011 and 1000/2011; ahead: 10 + 9.950273 + 4.972650
    assert forecasts([10, 20])[1] == pytest.approx(24.922924)


def test_before_any_traffic_the_forecast_is_0_and_zeros_are_skipped():
    assert Forecaster(PLANNER_NOISE).predict() == 0
    assert forecasts([0, 0, 10])[-1] == 10


def test_a_constant_is_forecast_as_itself():
    assert forecasts([40] * 10) == pytest.approx([40] * 10)


def test_a_line_is_forecast_one_step_ahead():
    assert forecasts(range(10, 200, 10))[-1] == pytest.approx(200, abs=1)


def test_zeros_after_traffic_count():
    assert forecasts([40, 40, 0])[-1] < 20
