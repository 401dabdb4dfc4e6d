"""Baselines: kept as JSON, compared only with what was measured alike."""

import math

import pytest

from cacheaware.model.baselines import BaselineError, Measured, as_text, drifts, from_text

RUN = Measured("attention", {"tokens": 8}, {"a": 0.5, "b": 1.0, "c": math.nan})


def test_what_is_kept_is_read_back():
    again = from_text(as_text(RUN))
    assert (again.probe, again.setup) == (RUN.probe, RUN.setup)
    assert (again.values["a"], again.values["b"]) == (0.5, 1.0)
    assert math.isnan(again.values["c"])


def test_the_same_run_has_no_drift():
    assert drifts(RUN, from_text(as_text(RUN))) == []


def test_the_largest_drift_comes_first_and_what_is_no_number_before_all():
    now = Measured("attention", {"tokens": 8}, {"a": math.nan, "b": 1.25, "c": 1.0, "d": 2.0})
    told = drifts(Measured("attention", {"tokens": 8}, {"a": 0.5, "b": 1.0, "c": 0.0}), now)
    assert [one.name for one in told] == ["a", "d", "c", "b"]
    assert [one.size for one in told] == [math.inf, math.inf, 1.0, 0.25]


@pytest.mark.parametrize(
    ("probe", "setup", "says"),
    [
        ("norms", {"tokens": 8}, "one of probe attention: needed is norms"),
        ("attention", {"tokens": 9}, "with tokens 8, now it is 9"),
        ("attention", {"tokens": 8, "band": 16}, "with band None, now it is 16"),
    ],
)
def test_runs_that_were_not_measured_alike_are_not_compared(probe, setup, says):
    with pytest.raises(BaselineError, match=says):
        drifts(RUN, Measured(probe, setup, {}))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "1", '{"schema": 2}', '{"schema": 1}', "[" * 99_999,
     '{"schema": 1, "probe": "x", "setup": {}, "values": {"a": "b"}}'],
)  # fmt: skip
def test_other_files_are_no_baselines(text):
    with pytest.raises(BaselineError):
        from_text(text)
