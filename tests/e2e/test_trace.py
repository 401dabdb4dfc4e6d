"""Real traffic on the real cluster, beside what the simulator says of it. `make e2e-trace`."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from tests.e2e.release import Release
from tests.e2e.trace import telling
from tests.e2e.trace.agreement import agreement, on_grid
from tests.e2e.trace.client import send
from tests.e2e.trace.excerpt import CONVERSATIONS, SPAN_S, excerpt
from tests.e2e.trace.scaler import scaler
from tests.e2e.trace.simulated import (
    ENGINE,
    SEEDS,
    START_REPLICAS,
    TARGETS,
    figures,
    middle,
    simulated,
)
from tests.e2e.trace.watching import Watch, api
from tests.e2e.workload import Fleet, eventually

from cacheaware_sim.load_trace import LoadTrace

pytestmark = [pytest.mark.e2e, pytest.mark.trace, pytest.mark.timeout("1800")]

COLD_START = ("--cold-start", "20")
ANSWERED_S = 300
"""After the last request was sent: the longest that answers may take."""


@pytest.fixture(scope="session")
def conversations(shared: Path) -> Path:
    """Azure's trace; asked for before a cluster is made."""
    source = shared / CONVERSATIONS
    if not source.exists():
        pytest.skip(f"{source} is missing: Azure's trace of conversations of 2023")
    return source


@pytest.fixture
def rounds_by_default(release: Release) -> Iterator[None]:
    """The operator decides each five seconds, as it does without settings."""
    release.install(settings__roundSeconds="5")
    yield
    release.install()


@pytest.mark.usefixtures("conversations", "rounds_by_default")
def test_ten_minutes_of_conversations_go_as_the_simulator_says(
    fleet: Fleet, conversations: Path, tmp_path
):
    trace = tmp_path / "conversations.csv"
    requests = excerpt(conversations, trace)
    span_s = max(one.at for one in LoadTrace(path=trace).requests())

    fleet.start(START_REPLICAS, engine=(*ENGINE, *COLD_START))
    fleet.wait_ready(START_REPLICAS, within=180)
    sender = send(
        fleet,
        trace,
        f"--to={SPAN_S:g}",
        "--model=mock",
        f"--slo-ttft-ms={TARGETS.ttft_s * 1e3:g}",
        f"--slo-tpot-ms={TARGETS.tpot_s * 1e3:g}",
    )
    eventually(sender.running, within=60, every=0.2, what="the load generator runs")
    # As in the simulator the operator meets load and fleet at the same time: its history begins.
    fleet.kubectl("apply", "-f", "-", input=yaml.safe_dump(scaler(fleet.name)))
    with api(fleet) as client:
        watch = Watch(fleet, client)
        watch.follow(sender.running, within=SPAN_S + ANSWERED_S)
    result = sender.result()

    began = datetime.fromisoformat(result["began_at"]).timestamp()
    seen = [replace(one, at_s=one.at_s - began) for one in watch.seen]
    telling.FOLDER.mkdir(parents=True, exist_ok=True)
    telling.write(telling.FOLDER / "timeline.csv", seen, [])
    (telling.FOLDER / "client.json").write_text(json.dumps(result, indent=1))
    cluster = on_grid([one for one in seen if one.at_s <= span_s], span_s)
    cold_starts_s = list(watch.cold_starts_s.values())
    runs = [simulated(trace, cold_starts_s, seed) for seed in SEEDS]
    run = middle(runs)
    simulator = on_grid(run.moments, span_s)
    found = agreement(cluster, simulator)

    telling.write(telling.FOLDER / "timeline.csv", cluster, simulator)
    telling.draw(telling.FOLDER / "timeline.png", cluster, simulator)
    means = [one.mean_replicas for one in runs]
    clients = telling.client_figures(result)
    print(f"\n{requests} requests; cold starts of the cluster's pods: {sorted(cold_starts_s)} s")
    print(telling.table(found, clients, figures(run.score), (min(means), max(means))))
    for entry in reversed(fleet.status()["decisions"]):
        print(f"  {entry['time']} {entry['reason']}: {entry['message']}")

    assert clients["sent"] == requests
    assert clients["lost"] == 0, result["losses"][:10]
    assert found.misses() == []
