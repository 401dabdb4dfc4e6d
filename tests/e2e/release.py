"""The chart installed on the real cluster with the images built from this checkout."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHART = Path(__file__).parents[2] / "charts" / "cacheaware"
VALUES = {
    "image.repository": "docker.io/cacheaware/operator",
    "image.tag": "dev",
    "image.pullPolicy": "Never",
    "settings.roundSeconds": "2",
    "settings.nodeSeconds": "15",
    "settings.logLevel": "debug",
}


@dataclass(slots=True)
class Release:
    """One Helm release of the operator."""

    cluster: Any
    namespace: str = "cacheaware-system"
    name: str = "cacheaware"

    def helm(self, *args: str) -> str:
        """Helm in the release's namespace."""
        return self.cluster.helm("-n", self.namespace, *args)

    def kubectl(self, *args: str) -> str:
        """kubectl in the release's namespace."""
        return self.cluster.kubectl("-n", self.namespace, *args)

    def install(self, chart: Path = CHART, **values: str) -> None:
        """Install or upgrade, and wait until the operator is Ready."""
        settings = VALUES | {key.replace("__", "."): value for key, value in values.items()}
        flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        try:
            self.helm_upgrade(chart, flags)
        except subprocess.CalledProcessError:
            pods = ("-l", f"app.kubernetes.io/instance={self.name}")
            print(self.kubectl("get", "pods", *pods, "-o", "wide"))
            print(self.kubectl("logs", *pods, "--tail=100", "--ignore-errors"))
            raise

    def helm_upgrade(self, chart: Path, flags: list[str]) -> None:
        """`helm upgrade --install --wait`."""
        self.helm(
            "upgrade", "--install", self.name, str(chart), "--create-namespace", "--wait",
            "--timeout", "120s", "--take-ownership", *flags,
        )  # fmt: skip

    def uninstall(self) -> None:
        """Take the release away."""
        self.helm("uninstall", self.name, "--ignore-not-found", "--wait", "--timeout", "60s")

    @property
    def deployment(self) -> str:
        """The operator's Deployment."""
        listed = json.loads(
            self.kubectl(
                "get", "deployments", "-l", f"app.kubernetes.io/instance={self.name}", "-o", "json"
            )
        )
        (found,) = listed["items"]
        return str(found["metadata"]["name"])

    def pod(self) -> str:
        """The operator's running pod."""
        listed = json.loads(
            self.kubectl(
                "get", "pods", "-l", f"app.kubernetes.io/instance={self.name}", "-o", "json"
            )
        )
        names = [
            p["metadata"]["name"]
            for p in listed["items"]
            if "deletionTimestamp" not in p["metadata"]
        ]
        return str(names[0])

    def kill_operator(self) -> None:
        """End the operator without a chance to say goodbye."""
        self.kubectl("delete", "pod", self.pod(), "--grace-period=0", "--force")

    def stop_operator(self) -> None:
        """Scale the operator to 0 and wait until it is gone."""
        self.kubectl("scale", "deployment", self.deployment, "--replicas=0")
        self.kubectl(
            "wait",
            "--for=delete",
            "pod",
            "-l",
            f"app.kubernetes.io/instance={self.name}",
            "--timeout=60s",
        )

    def start_operator(self) -> None:
        """Scale the operator back to 1 and wait until it is Ready."""
        self.kubectl("scale", "deployment", self.deployment, "--replicas=1")
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until the operator is Ready."""
        self.kubectl("rollout", "status", "deployment", self.deployment, "--timeout=90s")

    def log(self, lines: int = 100) -> str:
        """The end of the operator's log."""
        return self.kubectl("logs", f"deployment/{self.deployment}", f"--tail={lines}")
