"""Never Ready before warm, in the kubelet's own words."""

from datetime import datetime

import pytest
from tests.e2e.workload import Fleet, condition, eventually

pytestmark = pytest.mark.e2e


def test_a_pod_is_not_ready_before_its_long_prompt_was_answered(fleet: Fleet):
    # The first prompt of more than 512 tokens stalls for 6 s in this engine.
    fleet.start(1, engine=("--cold-start", "2", "--first-shape-stall", "6"))

    def engine_ready() -> str:
        (pod,) = fleet.pods()
        statuses = {c["name"]: c for c in pod["status"].get("containerStatuses", [])}
        return pod["metadata"]["name"] if statuses.get("engine", {}).get("ready") else ""

    name = eventually(engine_ready, within=60, every=0.1, what="the engine's container Ready")
    (pod,) = fleet.pods()
    assert condition(pod, "Ready") == "False", "the engine answers, the pod isn't Ready yet"
    eventually(
        lambda: fleet.state(name)["phase"] == "warming", within=5, every=0.2, what="phase warming"
    )
    (pod,) = fleet.pods()
    assert condition(pod, "Ready") == "False", "warming is not Ready"

    fleet.wait_ready(1, within=60)
    state = fleet.state(name)
    assert state["phase"] == "serving"
    assert state["warmup"]["verdict"] == "Warm"
    (pod,) = fleet.pods()
    when = {c["type"]: c["lastTransitionTime"] for c in pod["status"]["conditions"]}
    started = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    waited = (parse(when["Ready"]) - parse(started)).total_seconds()
    print(f"Ready {waited:.0f} s after the engine's container started; {state['warmup']}")
    assert waited >= 8, "cold start 2 s and the stall of 6 s come first"


def parse(text: str) -> datetime:
    return datetime.fromisoformat(text)
