"""The oracle in simulated fleets, and what bounds it from below."""

import math

import pytest

from cacheaware_sim.bound import bound_of
from cacheaware_sim.run_spec import SpecError
from cacheaware_sim.simulate import run
from cacheaware_sim.timeline_file import read_timeline


def test_the_oracle_reaches_its_target_at_less_than_any_constant_and_above_the_bound(spec):
    planned = run(spec(target_attainment=99.0))
    constants = [run(spec(policy=f"constant-{n}", start_replicas=n)) for n in range(1, 6)]

    assert planned.score.attainment >= 0.99
    good = [one.gpu_hours for one in constants if one.score.attainment >= 0.99]
    assert good
    assert planned.gpu_hours < min(good)
    assert bound_of(spec()).as_json()["gpu_hours"] < planned.gpu_hours


def test_the_run_tells_how_it_was_found(spec, tmp_path):
    result = run(spec(target_attainment=95), timeline=tmp_path / "rows.csv")

    shown = result.as_json()["oracle"]
    assert (shown["target_attainment_percent"], shown["reached"]) == (95, True)
    assert 7 <= shown["runs"] <= 24
    rows = read_timeline(tmp_path / "rows.csv")
    assert [row.at_s for row in rows] == [5.0 * n for n in range(1, len(rows) + 1)]
    assert len(rows) == math.floor(result.span_s / 5)
    assert max(row.replicas for row in rows) > min(row.replicas for row in rows)


def test_a_lower_target_costs_less(spec):
    costs = [run(spec(target_attainment=share)).gpu_hours for share in (40, 99.5)]

    assert costs[0] < costs[1]


def test_a_target_that_no_fleet_reaches_is_told(spec):
    result = run(spec(slo_ttft_ms=1, to_s=60))

    assert result.as_json()["oracle"]["reached"] is False
    assert result.score.attainment == 0
    assert result.score.requests == result.score.finished == 30


def test_policies_that_do_not_search_say_nothing_of_it(spec):
    assert run(spec(policy="constant-2", to_s=20)).as_json()["oracle"] is None


@pytest.mark.parametrize("share", [0, -1, 100.1, math.nan])
def test_a_target_is_a_share_of_the_requests(spec, share):
    with pytest.raises(SpecError, match=r"target-attainment .*: must be above 0 and at most 100"):
        spec(target_attainment=share)
