"""What looks at the health of pods, as people and tests ask it: doctor, sidecar, scaler, relief."""

import json
import os
import re
import subprocess
import sys
from typing import Any

from tests.e2e.workload import Fleet

FINDING = re.compile(r'^cacheaware_finding\{id="([\w-]+)",severity="(\w+)"\} 1\.0$', re.MULTILINE)
RELIEF = {
    "RELIEF": "on",
    "RELIEF_USAGE_PERCENT": "80",
    "RELIEF_AFTER_SECONDS": "5",
    "RELIEF_CORDON_SECONDS": "50",
    "RELIEF_EVERY_SECONDS": "60",
    "RELIEF_ABORT": "on",
}


def doctor(fleet: Fleet, *args: str) -> tuple[int, dict[str, Any]]:
    """The command as users run it: its exit code and its answer."""
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from cacheaware.cli import main; main()"),
            *("doctor", *args, "-n", fleet.namespace, "-o", "json"),
        ],
        env=os.environ | {"KUBECONFIG": str(fleet.cluster.kubeconfig)},
        capture_output=True, text=True, check=False, timeout=90,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def errors(told: dict[str, Any]) -> set[tuple[str, str]]:
    """What the doctor calls an error, of whom."""
    return {(one["subject"], one["id"]) for one in told["findings"] if one["severity"] == "error"}


def causes(told: dict[str, Any]) -> set[tuple[str, str]]:
    """Why the doctor says that requests are slow, and whose."""
    return {(one["subject"], one["id"]) for one in told["causes"]}


def measured(fleet: Fleet, pod: str) -> dict[str, str]:
    """The sidecar's own findings on its metrics page: severity by id."""
    return dict(FINDING.findall(fleet.raw(pod, 9440, "metrics")))


def unhealthy(fleet: Fleet) -> str:
    """What the scaler's condition CacheUnhealthy says; empty where there is none."""
    found = [c for c in fleet.status().get("conditions", []) if c["type"] == "CacheUnhealthy"]
    return found[0]["message"] if found and found[0]["status"] == "True" else ""


def events(fleet: Fleet, reason: str) -> list[dict[str, Any]]:
    """The scaler's events of a reason."""
    of = f"--field-selector=involvedObject.name={fleet.name},reason={reason}"
    return fleet.get("events", of)["items"]


def may_relieve_itself(spec: dict[str, Any], **settings: str) -> None:
    """Allow it in a pod's spec, abort included."""
    (sidecar,) = spec["initContainers"]
    allowed = RELIEF | settings
    sidecar["env"] += [{"name": f"CACHEAWARE_{key}", "value": allowed[key]} for key in allowed]


def end_sending(fleet: Fleet, load: str) -> None:
    """Ask a load to end; what is in flight it waits for and counts."""
    fleet.kubectl("exec", load, "--", "python3", "-c", "import os; os.kill(1, 15)")


def phase(fleet: Fleet, load: str) -> str:
    """Kubernetes' word for how a load's pod stands: Succeeded where no request has failed."""
    return str(fleet.get("pod", load)["status"]["phase"])
