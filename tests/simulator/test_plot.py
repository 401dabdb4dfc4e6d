"""The picture of a run: what is in it."""

from dataclasses import replace
from pathlib import Path

import pytest

from cacheaware_sim.fleet.score import Score
from cacheaware_sim.fleet.timeline import Row
from cacheaware_sim.plot import BINS, binned, draw, figure_of
from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.run_result import RunResult
from cacheaware_sim.run_spec import RunSpec
from cacheaware_sim.traces.trace import Notes

ROW = Row(
    at_s=0.0, requests_per_s=10.0, tokens_per_s=9000.0, replicas=4, starting=1, serving=3,
    cordoned=1, terminating=0, running=30, waiting=2, kv_usage=0.5, ttft_p90_s=0.4,
)  # fmt: skip


@pytest.fixture
def rows():
    return [replace(ROW, at_s=5.0 * n, requests_per_s=float(n % 2)) for n in range(1, 721)]


@pytest.fixture
def result():
    return RunResult(
        spec=RunSpec(trace=Path("a/conv.csv"), policy="wva-v1", scale=4, slo_ttft_ms=2000),
        score=Score(LatencyTargets(2.0, 0.1), requests=100, good=99, finished=100),
        start_replicas=4,
        prefix_caching=False,
        span_s=3600.0,
        trace_sha256="0",
        notes=Notes(),
        timeline_file=None,
        cpu_seconds=1.0,
    )


def test_there_is_a_panel_for_each_question_with_units(rows, result):
    panels = figure_of(rows, result).axes

    assert [panel.get_ylabel() for panel in panels] == [
        "requests/s",
        "pods",
        "KV cache in use (%)",
        "TTFT (s)",
        "1,000 tokens/s",
    ]
    assert panels[3].get_xlabel() == "time (min)"
    assert panels[3].get_xlim() == (0, 60)


def test_a_day_is_shown_in_hours(rows, result):
    panels = figure_of(rows, replace(result, span_s=86_400.0)).axes

    assert panels[3].get_xlabel() == "time (h)"
    assert panels[3].get_xlim() == (0, 24)


def test_the_title_says_what_was_run_and_what_came_of_it(rows, result):
    title = figure_of(rows, result).get_suptitle()

    assert "wva-v1 on conv.csv x4, llama-3.1-8b-l40s" in title
    assert "99.00 % within 2000 ms to the first token and 100 ms per token" in title


def test_only_stages_that_occur_are_in_the_legend(rows, result):
    legend = figure_of(rows, result).axes[1].get_legend()

    assert [text.get_text() for text in legend.get_texts()] == [
        "serving",
        "cordoned",
        "starting",
        "asked for",
    ]


def test_the_target_is_drawn(rows, result):
    lines = {line.get_label(): line for line in figure_of(rows, result).axes[3].get_lines()}

    assert list(lines["target"].get_ydata()) == [2.0, 2.0]
    assert len(lines["p90 of 5 s"].get_ydata()) == len(rows)


def test_unknown_values_are_left_out_and_not_drawn_as_zero(rows, result):
    some = [replace(row, ttft_p90_s=None, kv_usage=None) for row in rows[:360]] + rows[360:]

    lines = figure_of(some, result).axes[3].get_lines()
    assert len(lines[0].get_ydata()) == 360
    assert binned(some, "kv_usage").values == [0.5] * (BINS // 2)


def test_bins_are_means_over_equal_times(rows):
    some = binned(rows, "requests_per_s", bins=360)

    assert some.values == [0.5] * 360
    assert some.at_s[:2] == [7.5, 17.5]


def test_few_rows_are_bins_of_their_own(rows):
    assert binned(rows[:3], "requests_per_s").values == [1, 0, 1]


def test_a_run_too_short_for_a_row_is_drawn_empty(result, tmp_path):
    draw([], replace(result, span_s=2.0), tmp_path / "x.svg")

    assert "svg" in (tmp_path / "x.svg").read_text()
