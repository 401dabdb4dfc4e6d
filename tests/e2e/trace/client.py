"""A trace as load on the cluster: a ConfigMap with the file, and a pod that sends it."""

from pathlib import Path

import yaml
from tests.e2e.drain.clients import Client, Sender
from tests.e2e.workload import ENGINE_IMAGE, Fleet

FOLDER = "/trace"


def send(fleet: Fleet, trace: Path, *args: str) -> Sender:
    """Start a load generator that sends the trace, with more of its arguments."""
    name = f"load-{len(fleet.loads)}"
    fleet.kubectl("create", "configmap", name, f"--from-file={trace}")
    address = fleet.get("service", fleet.name)["spec"]["clusterIP"]
    command = ["cacheaware", "simulate", "load", f"http://{address}:8000", "-o", "json"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": "load",
                    "image": ENGINE_IMAGE,
                    "imagePullPolicy": "Never",
                    "command": [*command, f"--trace={FOLDER}/{trace.name}", *args],
                    "volumeMounts": [{"name": "trace", "mountPath": FOLDER, "readOnly": True}],
                }
            ],
            "volumes": [{"name": "trace", "configMap": {"name": name}}],
        },
    }
    fleet.loads.append(name)
    fleet.kubectl("apply", "-f", "-", input=yaml.safe_dump(pod))
    return Sender(fleet, Client.FRESH, name)
