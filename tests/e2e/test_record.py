"""`cacheaware record` beside a live scaler, and `replay` of what it kept."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.workload import Fleet

pytestmark = pytest.mark.e2e

SECONDS, INTERVAL = 12, 2
MOST = 256 * 1024


def cacheaware(fleet: Fleet, *args: str) -> subprocess.CompletedProcess[str]:
    """The command as users run it; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", "from cacheaware.cli import main; main()", *args],
        env=os.environ | {"KUBECONFIG": str(fleet.cluster.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    return done


def private_of(fleet: Fleet) -> set[str]:
    """Names and addresses that are nobody's business."""
    found = {fleet.namespace, "mock", "LlamaForCausalLM", "docker.io"}
    for pod in fleet.pods():
        meta, status = pod["metadata"], pod["status"]
        found |= {meta["name"], meta["uid"], status["podIP"], status["hostIP"]}
        found |= {f'"{pod["spec"]["nodeName"]}"'}
    return found


def test_a_recording_under_load_is_bounded_holds_no_name_and_is_replayed_as_it_was_decided(
    fleet: Fleet, tmp_path: Path
):
    fleet.start(1, engine=("--cold-start", "1"))
    fleet.scale_by()
    fleet.wait_ready(1)
    fleet.load(
        "--concurrency", "16", "--requests", "2000", "--duration", str(2 * SECONDS), "--stream",
        "--prompt-tokens", "200", "--output-tokens", "400",
    )  # fmt: skip
    path = tmp_path / "mock.jsonl.gz"
    told = cacheaware(
        fleet, "record", fleet.name, "-n", fleet.namespace, "-o", str(path), "--max-bytes",
        str(MOST), "--for", str(SECONDS), "--interval", str(INTERVAL),
    )  # fmt: skip
    print(told.stderr)
    text = gzip.decompress(path.read_bytes()).decode()
    assert path.stat().st_size <= MOST
    assert not {word for word in private_of(fleet) if word in text}

    lines = [json.loads(line) for line in text.splitlines()]
    found = json.loads(cacheaware(fleet, "replay", str(path), "--regret", "-o", "json").stdout)
    steps: list[dict[str, Any]] = found["steps"]
    assert len(steps) == len(lines) - 1 >= SECONDS / INTERVAL - 1
    assert [one["current"] for one in steps] == [one["replicas"] for one in lines[1:]]
    assert any(term["demand"] > 0 for one in steps for term in one["terms"]), "the load is in it"
    assert all(one["raw"] is not None for one in steps if one["serving"])
    assert found["regret"]
