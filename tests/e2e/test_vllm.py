"""The real vLLM on the real cluster: what the mock claims, it must show too.

Two folders of the host are mounted instead of an image of 6 GB, so it runs only on the cluster
made from source. `make e2e-vllm`.
"""

import json
import re
import time

import pytest
import yaml
from tests.e2e.drain.real_engines import objects
from tests.e2e.workload import Fleet, condition, eventually
from tests.real_engine.install import Engine, install

pytestmark = [pytest.mark.e2e, pytest.mark.vllm, pytest.mark.timeout("1800")]

BYTES_PER_TOKEN = 2 * 2 * (32 + 32) * 2  # layers x KV heads x (K + V) x bytes = 512


@pytest.fixture(scope="module")
def engine() -> Engine:
    return install()


def logged_tokens(log: str) -> int:
    (found,) = re.findall(r"KV cache size: ([\d,]+) tokens", log)
    return int(found.replace(",", ""))


def test_the_real_vllm_is_warmed_measured_and_scaled(fleet: Fleet, engine: Engine, release):
    fleet.name = "vllm"
    fleet.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects(engine)))

    def answers() -> str:
        (pod,) = fleet.pods()
        statuses = {c["name"]: c for c in pod["status"].get("containerStatuses", [])}
        return pod["metadata"]["name"] if statuses.get("engine", {}).get("ready") else ""

    name = eventually(answers, within=300, every=0.2, what="vLLM answers /health")
    fleet.wait_ready(1, within=120)
    state = fleet.state(name)
    print("warm-up:", state["warmup"], state["problems"])
    assert state["warmup"]["verdict"] == "Warm"
    assert state["engine"] == "vllm"

    tokens = logged_tokens(fleet.kubectl("logs", name, "-c", "engine"))
    kv = state["kv"]
    print(f"vLLM logs {tokens} tokens; sidecar: {kv}")
    assert kv["capacity_tokens"] == tokens
    assert kv["capacity_bytes"] == tokens * BYTES_PER_TOKEN

    fleet.load(
        "--concurrency", "24", "--requests", "3000", "--duration", "150",
        "--prompt-tokens", "200", "--output-tokens", "400", "--stream", "--model", "tiny",
    )  # fmt: skip
    fullest = 0.0
    began = time.monotonic()
    while time.monotonic() - began < 120 and (fleet.replicas() < 2 or fullest < 0.99):
        fullest = max(fullest, fleet.state(name)["kv"]["usage"] or 0.0)
        time.sleep(0.3)
    print(f"fullest KV seen {fullest:.3f}; {fleet.replicas()} replicas")
    assert fleet.replicas() == 2
    assert fullest >= 0.95
    print(json.dumps(fleet.status()["decisions"][0], indent=1))

    eventually(lambda: fleet.replicas() == 1, within=300, every=1, what="idleness takes it away")
    assert all(condition(pod, "Ready") for pod in fleet.pods())
