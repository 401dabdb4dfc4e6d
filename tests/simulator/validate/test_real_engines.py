"""The engine model against request logs of a real vLLM: fitted on one half, judged by the other."""

import time

import pytest

from cacheaware_sim.validate.report import RUNS, validated


@pytest.fixture(scope="module", params=RUNS, ids=lambda run: run.folder)
def fitted(request, shared):
    started = time.process_time()
    found = validated(request.param, shared / "data/latency")
    seconds = time.process_time() - started
    print(f"\n{found.run.folder}: fitted in {seconds:.1f} s, {found.as_json()}")
    return found


def test_the_second_half_of_the_requests_is_met(fitted):
    for row in fitted.rows:
        print(
            f"  {row.time} {row.figure}: real {row.real:.4g} {row.unit}, "
            f"simulated {row.simulated:.4g}, {row.error:+.1%}"
        )
    assert [row for row in fitted.rows if not row.ok] == []


def test_means_and_90th_percentiles_are_held_to_five_percent(fitted):
    held = {(row.time, row.figure): row.tolerance for row in fitted.rows}
    for name in ("ttft", "tpot", "e2e"):
        assert held[name, "mean"] == held[name, "p90"] == 0.05
        assert held[name, "p50"] == (None if fitted.run.short_of_cache else 0.05)


def test_the_engine_preempts_where_the_real_one_was_short_of_cache(fitted):
    assert (fitted.fit.preemptions > 0) == fitted.run.short_of_cache


def test_the_fit_stays_near_what_is_known(fitted):
    fit = fitted.fit
    assert fit.objective < 0.03
    assert (fit.shared is not None) == fitted.run.short_of_cache
    assert (fit.shared or 0) < 0.05
    assert fit.stall_s < 1
