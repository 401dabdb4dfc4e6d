"""One scenario, run, counted and kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.drain.clients import Client, Clients
from tests.e2e.drain.habits import Setup
from tests.e2e.drain.outcome import FILE, Outcome, keep, outcome
from tests.e2e.drain.pod_logs import followed
from tests.e2e.drain.scenarios import SCENARIOS, Run, Scenario
from tests.e2e.release import Release
from tests.e2e.workload import Fleet

LOGS = FILE.parent / "drain-logs"


def run(
    scenario: Scenario,
    setup: Setup,
    fleet: Fleet,
    clients: Clients,
    *,
    file: Path | None = FILE,
) -> list[Outcome]:
    """Run a scenario under load; what became of each client's requests, kept in a file."""
    story = Run(fleet, setup, clients)
    folder = LOGS / f"{scenario.name}-{setup.name}".lower().replace("_", "-")
    with followed(fleet, folder), evidence(fleet, folder):
        SCENARIOS[scenario](story)
        results = clients.finish()
    print(f"{scenario}, {setup.name}: {story.facts}")
    found = [
        outcome(
            scenario=str(scenario),
            system=setup.system,
            habit=str(setup.habit),
            client=str(client),
            results=parts,
            facts=story.facts,
        )
        for client, parts in results.items()
    ]
    for one in found if file else ():
        keep(one, file)
    tell(results, folder)
    return found


@contextmanager
def evidence(fleet: Fleet, folder: Path) -> Iterator[None]:
    """After the run, whatever its end: what the operator decided, and its log."""
    try:
        yield
    finally:
        folder.mkdir(parents=True, exist_ok=True)
        objects = fleet.kubectl("get", "pods,cacheawarescalers", "-o", "json", "--ignore-not-found")
        (folder / "objects.json").write_text(objects)
        log = Release(fleet.cluster).kubectl(
            "logs", "-l", "app.kubernetes.io/component=operator", "--tail=2000", "--ignore-errors"
        )
        (folder / "operator.log").write_text(log)


def tell(results: dict[Client, list[dict]], folder: Path) -> None:
    """Print the losses, and where the logs are that tell why."""
    for client, parts in results.items():
        for loss in [loss for part in parts for loss in part["losses"]][:10]:
            print(f"  {client}: {loss}")
    print(f"  logs of the pods: {folder}")
