"""Nothing is lost: pods go in every way under streaming load, with the system and without it."""

from collections.abc import Iterator

import pytest
from tests.cluster import choice, images
from tests.e2e.drain.clients import Client, Clients
from tests.e2e.drain.habits import Habit, Setup
from tests.e2e.drain.outcome import Outcome, text
from tests.e2e.drain.run import run
from tests.e2e.drain.scenarios import Scenario
from tests.e2e.workload import Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.timeout("300")]


@pytest.fixture(scope="module")
def outcomes() -> Iterator[list[Outcome]]:
    """What the tests of this file found; printed side by side after the last one."""
    found: list[Outcome] = []
    yield found
    print(f"\n{text(found)}")


@pytest.mark.parametrize("scenario", Scenario, ids=str)
def test_with_the_system_no_request_is_lost(scenario: Scenario, fleet: Fleet, outcomes):
    found = run(scenario, Setup(system=True), fleet, Clients(fleet))
    outcomes += found
    assert [(one.client, one.failed, one.not_sent) for one in found if one.lost] == []
    assert all(one.sent >= 1000 for one in found)


@pytest.mark.parametrize("scenario", [Scenario.SCALE_DOWN, Scenario.ROLLING_UPDATE], ids=str)
def test_the_same_load_without_the_system_loses_requests(scenario: Scenario, fleet, outcomes):
    found = run(scenario, Setup(system=False), fleet, Clients(fleet))
    outcomes += found
    assert all(one.lost > 0 for one in found), "this load would show a loss"
    assert all(one.sent >= 1000 for one in found)


MATRIX = [
    pytest.param(scenario, habit, id=f"{scenario}, {habit}")
    for scenario in Scenario
    for habit in Habit
]


def all_clients(fleet: Fleet) -> Clients:
    """A third of the load by each kind of client, at the same time on the same pods."""
    images.load(choice.choose(), images.build_all(images=(images.PROXY,)))
    return Clients(fleet, kinds=tuple(Client), rate=45)


@pytest.mark.drain
@pytest.mark.parametrize(("scenario", "habit"), MATRIX)
def test_whatever_an_engine_does_at_sigterm_no_client_loses_a_request(
    scenario: Scenario, habit: Habit, fleet: Fleet, outcomes
):
    found = run(scenario, Setup(system=True, habit=habit), fleet, all_clients(fleet))
    outcomes += found
    assert [(one.client, one.failed, one.not_sent) for one in found if one.lost] == []
    assert all(one.sent >= 1000 for one in found)


@pytest.mark.drain
@pytest.mark.parametrize(("scenario", "habit"), MATRIX)
def test_what_a_plain_deployment_loses(scenario: Scenario, habit: Habit, fleet: Fleet, outcomes):
    found = run(scenario, Setup(system=False, habit=habit), fleet, all_clients(fleet))
    outcomes += found
    assert all(one.sent >= 1000 for one in found)
    if habit is Habit.ABORT:
        assert any(one.lost for one in found), "this load would show a loss"
