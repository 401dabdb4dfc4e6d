"""Nothing is lost on the real vLLM either: pods go under streaming load. `make e2e-vllm`."""

from collections.abc import Iterator

import pytest
from tests.cluster import choice, images
from tests.e2e.drain.clients import Client, Clients
from tests.e2e.drain.habits import Habit
from tests.e2e.drain.outcome import Outcome, text
from tests.e2e.drain.real_engines import REAL_FILE, RealSetup
from tests.e2e.drain.run import run
from tests.e2e.drain.scenarios import Scenario
from tests.e2e.workload import Fleet
from tests.real_engine.install import Engine, install

pytestmark = [pytest.mark.e2e, pytest.mark.vllm, pytest.mark.timeout("1800")]

GO_ONE_BY_ONE = [Scenario.SCALE_DOWN, Scenario.ROLLING_UPDATE]
AT_LEAST = 200
"""Requests of each client: what two cores bear with two or three engines on them."""


@pytest.fixture(scope="module")
def engine() -> Engine:
    return install()


@pytest.fixture(scope="module")
def outcomes() -> Iterator[list[Outcome]]:
    """What the tests of this file found; printed side by side after the last one."""
    found: list[Outcome] = []
    yield found
    print(f"\n{text(found)}")


@pytest.fixture
def fleet(fleet: Fleet) -> Iterator[Fleet]:
    """A fleet whose engines are gone before the next ones load: they would take its cores."""
    fleet.name = "vllm"
    yield fleet
    fleet.kubectl("delete", "cacheawarescalers,deployments", "--all")
    fleet.kubectl("delete", "pods", "--all", "--grace-period=1", "--wait")


def all_clients(fleet: Fleet) -> Clients:
    """A third of the load by each kind of client, at the same time on the same pods."""
    images.load(choice.choose(), images.build_all(images=(images.PROXY,)))
    return Clients(
        fleet, kinds=tuple(Client), rate=3, at_least=AT_LEAST, model="tiny", longest_s=900
    )


@pytest.mark.parametrize("habit", [Habit.ABORT, Habit.FINISH], ids=lambda one: one.engines)
@pytest.mark.parametrize("scenario", GO_ONE_BY_ONE, ids=str)
def test_with_the_system_the_real_engine_loses_nothing(
    scenario: Scenario, habit: Habit, fleet: Fleet, engine: Engine, outcomes
):
    setup = RealSetup(engine, system=True, habit=habit)
    found = run(scenario, setup, fleet, all_clients(fleet), file=REAL_FILE)
    outcomes += found
    assert [(one.client, one.failed, one.not_sent) for one in found if one.lost] == []
    assert all(one.sent >= AT_LEAST for one in found)


@pytest.mark.parametrize("scenario", GO_ONE_BY_ONE, ids=str)
def test_what_a_plain_deployment_of_the_real_engine_loses(
    scenario: Scenario, fleet: Fleet, engine: Engine, outcomes
):
    setup = RealSetup(engine, system=False)
    found = run(scenario, setup, fleet, all_clients(fleet), file=REAL_FILE)
    outcomes += found
    assert any(one.lost for one in found), "this load would show a loss"
