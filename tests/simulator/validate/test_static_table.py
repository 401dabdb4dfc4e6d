"""The published table of two static replicas."""

import pytest

from cacheaware_sim.validate.report import static_rows
from cacheaware_sim.validate.static_table import TABLE, simulated


@pytest.fixture(scope="module")
def rows():
    return static_rows()


def test_inter_token_latency_is_within_twenty_percent_of_the_published(rows):
    held = [row for row in rows if row.time == "itl"]
    assert [row.run for row in held] == ["prefill-heavy", "decode-heavy", "symmetric"]
    for row in rows:
        print(f"{row.run} {row.time}: {row.real} {row.unit}, {row.simulated:.1f}, {row.error:+.1%}")
    assert all(row.tolerance == 0.2 for row in held)
    assert [row for row in held if not row.ok] == []


def test_time_to_first_token_is_shown_and_not_held(rows):
    assert [row.tolerance for row in rows if row.time == "ttft"] == [None] * 3


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_arrivals_give_the_same_within_the_tolerance(seed):
    for published in TABLE:
        model = simulated(published, seed)
        assert model.itl_ms == pytest.approx(published.itl_ms, rel=0.2)
        assert model.finished > 50
