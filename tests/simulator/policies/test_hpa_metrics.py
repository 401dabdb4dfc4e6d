import pytest

from cacheaware_sim.policies.hpa_metrics import (
    TEN_PERCENT,
    PodMetric,
    Tolerance,
    average_value_replicas,
    largest,
    pods_metric_replicas,
    value_replicas,
)


@pytest.mark.parametrize(
    ("current", "metric", "replicas"),
    [
        pytest.param(3, PodMetric((4.0, 4.0, 4.0)), 6, id="twice the target is twice the pods"),
        pytest.param(3, PodMetric((2.2, 2.2, 2.2)), 3, id="1.1 is within the tolerance"),
        pytest.param(3, PodMetric((2.3, 2.3, 2.3)), 4, id="1.15 is outside: ceil(3.45)"),
        pytest.param(10, PodMetric((1.8,) * 10), 10, id="0.9 is within the tolerance"),
        pytest.param(10, PodMetric((1.7,) * 10), 9, id="0.85 is outside: ceil(8.5)"),
        pytest.param(4, PodMetric((0.0,) * 4), 0, id="nothing at all asks for none"),
        pytest.param(4, PodMetric(()), None, id="no pod has a value"),
        pytest.param(4, PodMetric((), missing=4), None, id="all pods are silent"),
        pytest.param(
            4, PodMetric((6.0, 6.0, 6.0), missing=1), 9, id="growing, the silent one counts as 0"
        ),
        pytest.param(
            4, PodMetric((1.0, 1.0, 1.0), missing=1), 3, id="shrinking, it counts as the target"
        ),
        pytest.param(
            4, PodMetric((3.0,), missing=3), 4, id="growth turned into a shrink by the silent: stay"
        ),
        pytest.param(
            3, PodMetric((3.2, 3.2), missing=1), 3, id="with the silent within tolerance: 1.067"
        ),
        pytest.param(
            6, PodMetric((8.0, 8.0), missing=0), 8, id="only pods with a value are multiplied"
        ),
        pytest.param(
            6, PodMetric((6.0, 6.0), pending=2), 6, id="pending pods count as 0 on growth: 1.5 x 4"
        ),
        pytest.param(
            4, PodMetric((1.0, 1.0), pending=2), 1, id="pending pods do not count on a shrink"
        ),
        pytest.param(
            8, PodMetric((6.0, 6.0), missing=1), 8, id="a growth may not end below what there is"
        ),
        pytest.param(
            2, PodMetric((1.0, 1.0), missing=3), 2, id="a shrink may not end above what there is"
        ),
        pytest.param(
            3, PodMetric((2.0, 2.0), missing=1), 2, id="at a ratio of just 1 the silent count as 0"
        ),
    ],
)
def test_a_pods_metric_with_target_2_asks_for(current, metric, replicas):
    assert pods_metric_replicas(current, metric, 2, TEN_PERCENT) == replicas


@pytest.mark.parametrize(
    ("total", "pods", "replicas"),
    [
        pytest.param(2.8, 4, 4, id="exactly the target"),
        pytest.param(2.9, 4, 4, id="1.04 is within the tolerance"),
        pytest.param(3.2, 4, 5, id="1.14 is outside: ceil(4.57)"),
        pytest.param(2.4, 4, 4, id="0.86 is outside, but ceil(3.43) is what there is"),
        pytest.param(1.4, 4, 2, id="half"),
        pytest.param(0.0, 4, 0, id="nothing"),
        pytest.param(1.4, 0, 2, id="no pods: there is no ratio"),
    ],
)
def test_an_external_metric_with_0_7_per_pod_asks_for(total, pods, replicas):
    assert average_value_replicas(total, 0.7, pods, TEN_PERCENT) == replicas


@pytest.mark.parametrize(
    ("desired", "pods", "replicas"),
    [
        pytest.param(10, 9, 10, id="9 to 10 is 1.11"),
        pytest.param(11, 10, 10, id="10 to 11 is 1.1"),
        pytest.param(12, 10, 12, id="10 to 12 is 1.2"),
        pytest.param(8, 9, 8, id="9 to 8 is 0.89"),
        pytest.param(9, 10, 10, id="10 to 9 is 0.9"),
        pytest.param(8, 10, 8, id="10 to 8 is 0.8"),
    ],
)
def test_the_tolerance_hides_a_step_of_one_from_ten_pods_on(desired, pods, replicas):
    assert average_value_replicas(desired, 1, pods, TEN_PERCENT) == replicas
    assert average_value_replicas(desired, 1, pods, Tolerance(0, 0)) == desired


@pytest.mark.parametrize(
    ("value", "current", "ready", "replicas"),
    [
        pytest.param(4.0, 3, 3, 6, id="twice"),
        pytest.param(2.1, 3, 3, 3, id="within the tolerance"),
        pytest.param(4.0, 6, 3, 6, id="only ready pods are multiplied"),
        pytest.param(3.0, 0, 0, 2, id="from zero"),
        pytest.param(0.0, 0, 0, 0, id="nothing at zero"),
    ],
)
def test_a_value_with_target_2_asks_for(value, current, ready, replicas):
    assert value_replicas(value, 2, current, ready, TEN_PERCENT) == replicas


@pytest.mark.parametrize(
    ("proposals", "current", "replicas"),
    [
        pytest.param([2, 5, 3], 4, 5, id="the largest"),
        pytest.param([2, None], 4, None, id="no shrink with one unknown"),
        pytest.param([5, None], 4, 5, id="growth with one unknown"),
        pytest.param([4, None], 4, 4, id="staying with one unknown"),
        pytest.param([None, None], 4, None, id="nothing is known"),
        pytest.param([1, 2], 4, 2, id="a shrink to the larger"),
    ],
)
def test_of_several_metrics_counts(proposals, current, replicas):
    assert largest(proposals, current) == replicas
