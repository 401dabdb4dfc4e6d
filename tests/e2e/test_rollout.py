"""A rolling update while the operator is away: pods drain and warm up all the same."""

import pytest
from tests.e2e.drain.clients import Clients
from tests.e2e.drain.habits import Setup
from tests.e2e.drain.run import run
from tests.e2e.drain.scenarios import Scenario
from tests.e2e.workload import Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.timeout("300")]


def test_a_rolling_update_without_the_operator_loses_nothing(fleet: Fleet, release):
    release.stop_operator()
    try:
        found = run(Scenario.ROLLING_UPDATE, Setup(system=True), fleet, Clients(fleet), file=None)
    finally:
        release.start_operator()
    assert [one.failed for one in found if one.lost] == []
    for pod in fleet.pods():
        state = fleet.state(pod["metadata"]["name"])
        assert (state["phase"], state["warmup"]["verdict"]) == ("serving", "Warm")
