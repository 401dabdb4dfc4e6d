"""Histograms: whole, abridged, torn, of several engines."""

import math

import pytest

from cacheaware_sidecar.engines import scan

NAME = "vllm:time_to_first_token_seconds"
INF = math.inf


def ttft(*buckets: tuple[str, object], count: object = 3, total: object = 1.5, more: str = ""):
    return [
        *(f'{NAME}_bucket{{le="{le}"{more}}} {value}' for le, value in buckets),
        f"{NAME}_count{{{more.strip(',')}}} {count}",
        f"{NAME}_sum{{{more.strip(',')}}} {total}",
    ]


def read(lines):
    sample = scan("\n".join(["vllm:num_requests_running 1", *lines]).encode())
    return sample.ttft, [problem for problem in sample.problems if problem.startswith(NAME)]


def test_a_whole_one():
    histogram, problems = read(ttft(("0.1", 1), ("1.0", 2), ("+Inf", 3)))
    assert (histogram.count, histogram.sum) == (3, 1.5)
    assert histogram.buckets == ((0.1, 1), (1.0, 2), (INF, 3))
    assert problems == []


def test_bounds_are_put_in_order():
    histogram, _ = read(ttft(("+Inf", 3), ("1.0", 2), ("0.1", 1)))
    assert histogram.buckets == ((0.1, 1), (1.0, 2), (INF, 3))


def test_without_buckets_the_count_is_the_last():
    assert read(ttft())[0].buckets == ((INF, 3),)


def test_without_the_last_bucket_the_count_is_it():
    assert read(ttft(("0.1", 1)))[0].buckets == ((0.1, 1), (INF, 3))


def test_without_a_count_the_last_bucket_is_it():
    lines = [line for line in ttft(("0.1", 1), ("+Inf", 3)) if "_count" not in line]
    assert read(lines)[0].count == 3


@pytest.mark.parametrize("part", ["_sum", "_count"])
def test_without_sum_or_count_it_is_unknown(part):
    lines = [line for line in ttft(("0.1", 1)) if part not in line]
    assert read(lines)[0] is None


def test_engines_are_added():
    one = ttft(("0.1", 1), ("+Inf", 3), more=',engine="0"')
    two = ttft(("0.1", 2), ("+Inf", 4), more=',engine="1"', count=4)
    histogram, _ = read([*one, *two])
    assert (histogram.count, histogram.buckets) == (7, ((0.1, 3), (INF, 7)))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        pytest.param(ttft(("0.1", 2), ("1", 1), ("+Inf", 3)), "do not rise", id="counts that fall"),
        pytest.param(ttft(("0.1", "NaN"), ("+Inf", 3)), "do not rise", id="NaN"),
        pytest.param(ttft(("0.1", -1), ("+Inf", 3)), "do not rise", id="negative"),
        pytest.param(ttft(("0.1", 1), ("+Inf", "+Inf")), "do not rise", id="infinite"),
        pytest.param(ttft(("x", 1), ("+Inf", 3)), "no number le", id="bound no number"),
        pytest.param(ttft(("NaN", 1), ("+Inf", 3)), "no number le", id="bound NaN"),
        pytest.param(ttft(("0.1", "1_0"), ("+Inf", 3)), "not well formed", id="underscore"),
        pytest.param(ttft(("0.1", "x"), ("+Inf", 3)), "not well formed", id="word"),
        pytest.param(ttft(("0.1", 1), total="NaN"), "not a number", id="sum NaN"),
        pytest.param(ttft(("0.1", 1), count=-1), "not a number", id="count negative"),
        pytest.param(
            [
                *ttft(("0.1", 1), more=',engine="0"'),
                *ttft(("0.2", 1), ("0.1", 1), more=',engine="1"'),
            ],
            "different buckets",
            id="engines with other bounds",
        ),
    ],
)
def test_a_bad_one_is_unknown_and_said(lines, problem):
    histogram, problems = read(lines)
    assert histogram is None
    assert problem in " ".join(problems)


def test_timestamps_and_exemplars_are_understood():
    lines = [
        f'{NAME}_bucket{{le="0.1"}} 1 1700000000000',
        f'{NAME}_bucket{{le="+Inf"}} 3 # {{trace_id="a"}} 0.2',
        f"{NAME}_count 3",
        f"{NAME}_sum 1.5",
    ]
    assert read(lines)[0].buckets == ((0.1, 1), (INF, 3))
