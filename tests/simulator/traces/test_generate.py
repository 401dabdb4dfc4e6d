"""Generated traces have the statistics that they are named after."""

from collections import Counter
from functools import cache

import pytest

from cacheaware_sim.traces.generate import MARGINALS, Marginals, arrivals, generate, levels
from cacheaware_sim.traces.lengths import Fixed
from cacheaware_sim.traces.statistics import measure

DAY_S = 86_400

PUBLISHED = {
    # mean req/s, IoD at 1, 10, 60 s, prompt mean, p50, p99, output mean, p50, p99
    "azure-conv-like": (5.53, 1.39, 3.86, 16.1, 1155, 1020, 4142, 211, 129, 601),
    "azure-code-like": (2.57, 13.2, 71.6, 164, 2048, 1469, 7436, 27.9, 13, 251),
    "servegen-r1-like": (4.00, 3.1, 13.6, 67, 1267, 208, 23_257, 1525, 789, 12_496),
    "steady": (5, 1, 1, 1, 1022, 800, 4080, 275, 200, 1270),
    "bursty": (5, 4, 25, 80, 1022, 800, 4080, 275, 200, 1270),
    "prefill-heavy": (12, 6, 30, 90, 3687, 3414, 7773, 76, 60, 299),
}
IOD_TOLERANCE = {"azure-conv-like": 0.1, "servegen-r1-like": 0.1, "steady": 0.1, "bursty": 0.2}
"""Of one day. Code's bursts are so rare and large that a day varies by a third."""


@cache
def day(name):
    """The statistics of a generated day, and its requests by hour."""
    hours = Counter()

    def counted():
        for request in generate(name, DAY_S, seed=1):
            hours[int(request.at // 3600)] += 1
            yield request

    return measure(counted()), hours


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_generated_day_has_the_published_statistics(name):
    rate, *rest = PUBLISHED[name]
    found, _ = day(name)
    iods = [found.dispersion[window].iod for window in (1, 10, 60)]
    tolerance = IOD_TOLERANCE.get(name, 0.4)
    assert found.rate_per_s == pytest.approx(rate, rel=0.05)
    assert iods == pytest.approx(rest[:3], rel=tolerance)
    for tokens, expected in ((found.prompt, rest[3:6]), (found.output, rest[6:])):
        assert tokens.mean == pytest.approx(expected[0], rel=0.07)
        assert [tokens.p50, tokens.p99] == pytest.approx(expected[1:], rel=0.03)


def test_the_published_names_are_all_of_them():
    assert set(PUBLISHED) == set(MARGINALS)


def test_r1_has_its_clients_and_its_day():
    found, hours = day("servegen-r1-like")
    mean = found.requests / 24
    assert found.clients == 73
    assert found.top_clients_percent == pytest.approx(68, abs=1)
    assert hours[2] / mean == pytest.approx(2.04, rel=0.15)
    assert hours[12] / mean == pytest.approx(0.45, rel=0.15)


@pytest.mark.parametrize("name", MARGINALS)
def test_a_seed_is_a_trace_in_order_and_inside_its_time(name):
    requests = list(generate(name, 400.5, seed=5))
    times = [one.at for one in requests]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] < 400.5
    assert requests == list(generate(name, 400.5, seed=5))
    assert requests != list(generate(name, 400.5, seed=6))


def test_a_longer_trace_begins_as_the_shorter_one():
    short = list(generate("bursty", 100, seed=2))
    assert list(generate("bursty", 200, seed=2))[: len(short)] == short


def test_the_docstrings_worked_example_is_what_is_computed():
    second, ten, minute = levels(MARGINALS["azure-conv-like"])
    parts = [level.share**2 * level.variance * 5.53 for level in (second, ten, minute)]
    assert parts == pytest.approx([0.116, 0.030, 0.245], abs=0.001)
    assert second.variance == ten.variance == minute.variance
    assert second.share + ten.share + minute.share == pytest.approx(1)


def test_dispersions_that_no_such_process_has_are_refused():
    marginals = Marginals(rate_per_s=1, iod=(5, 2, 9), prompt=Fixed(1), output=Fixed(1))
    with pytest.raises(ValueError, match=r"iod .5, 2, 9.: must be those of noise"):
        levels(marginals)


def test_an_hour_without_load_has_no_arrivals():
    marginals = Marginals(
        rate_per_s=1, iod=(2, 11, 61), prompt=Fixed(1), output=Fixed(1), hours=(0.0, 2.0)
    )
    times = list(arrivals(marginals, 7200, seed=0))
    assert min(times) > 3600
    assert len(times) == pytest.approx(7200, rel=0.05)


@pytest.mark.parametrize(
    ("name", "duration_s", "problem"),
    [
        ("azure", 1, "generator 'azure': must be one of azure-conv-like, azure-code-like"),
        ("steady", 0, "duration_s 0: must be above 0"),
        ("steady", float("nan"), "duration_s nan: must be above 0"),
        ("steady", 1e9, "duration_s 1000000000.0: must be above 0 and at most 31,622,400"),
    ],
)
def test_a_generator_that_makes_no_sense_is_refused_at_once(name, duration_s, problem):
    with pytest.raises(ValueError, match=problem):
        generate(name, duration_s)
