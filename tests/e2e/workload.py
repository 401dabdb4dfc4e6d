"""A fleet of mock engines on the real cluster: made from the manifests that users try first."""

import copy
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

MANIFESTS = Path(__file__).parents[2] / "manifests"
ENGINE_IMAGE = "docker.io/cacheaware/mock-engine:dev"


T = TypeVar("T")


def eventually(look: Callable[[], T], *, within: float, every: float = 0.5, what: str = "") -> T:
    """The first true value that `look` gives; fails with what was seen last after `within` s."""
    end = time.monotonic() + within
    while True:
        seen = look()
        if seen or time.monotonic() > end:
            break
        time.sleep(every)
    assert seen, f"{what or look}: not within {within:g} s, last seen {seen!r}"
    return seen


def always(look: Callable[[], bool], *, during: float, every: float = 1.0, what: str = "") -> None:
    """Fails as soon as `look` is false within `during` seconds."""
    end = time.monotonic() + during
    while time.monotonic() < end:
        assert look(), f"{what or look}: no longer true"
        time.sleep(every)


@dataclass(slots=True)
class Fleet:
    """One Deployment of mock engines, its Service and its CacheAwareScaler."""

    cluster: Any
    namespace: str
    name: str = "mock"
    loads: list[str] = field(default_factory=list)

    def kubectl(self, *args: str, **more: Any) -> str:
        """kubectl in the fleet's namespace."""
        return self.cluster.kubectl("-n", self.namespace, *args, **more)

    def get(self, *args: str) -> dict[str, Any]:
        """An object, or a list of them, as a dictionary."""
        return json.loads(self.kubectl("get", *args, "-o", "json"))

    def start(
        self, replicas: int = 1, *, engine: tuple[str, ...] = (), sidecar: bool = True
    ) -> None:
        """Apply the engines; `engine` are more arguments of the mock."""
        objects = [
            shaped(document, replicas=replicas, engine=engine, sidecar=sidecar)
            for document in documents("kind/mock-engine.yaml")
        ]
        self.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))

    def scale_by(self, **spec: Any) -> None:
        """Apply the CacheAwareScaler of the manifests with these fields of its spec replaced."""
        (scaler,) = documents("kind/scaler.yaml")
        scaler["metadata"]["name"] = scaler["spec"]["scaleTargetRef"]["name"] = self.name
        scaler["spec"] |= spec
        self.kubectl("apply", "-f", "-", input=yaml.safe_dump(scaler))

    def replicas(self) -> int:
        """What the Deployment asks for."""
        return int(self.get("deployment", self.name)["spec"]["replicas"])

    def pods(self) -> list[dict[str, Any]]:
        """The engines' pods that are not being deleted."""
        items = self.get("pods", "-l", f"app={self.name}")["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def ready(self) -> int:
        """Pods that are Ready."""
        return sum(condition(pod, "Ready") == "True" for pod in self.pods())

    def wait_ready(self, count: int, within: float = 90) -> None:
        """Wait until so many pods are Ready."""
        eventually(lambda: self.ready() >= count, within=within, what=f"{count} pods Ready")

    def status(self) -> dict[str, Any]:
        """The CacheAwareScaler's status; empty before the first round."""
        return self.get("cacheawarescaler", self.name).get("status") or {}

    def condition(self, kind: str) -> tuple[str, str]:
        """(status, reason) of a condition of the CacheAwareScaler."""
        for entry in self.status().get("conditions") or []:
            if entry["type"] == kind:
                return entry["status"], entry["reason"]
        return "Unknown", ""

    def state(self, pod: str) -> dict[str, Any]:
        """A pod's /v1/state through the API server."""
        return json.loads(self.raw(pod, 9440, "v1/state"))

    def raw(self, pod: str, port: int, path: str) -> str:
        """GET a path of a pod through the API server."""
        base = f"/api/v1/namespaces/{self.namespace}/pods/{pod}:{port}/proxy/{path}"
        return self.kubectl("get", "--raw", base)

    def fault(self, pod: str, **faults: Any) -> None:
        """Tell a mock engine to misbehave (it was started with --faults)."""
        base = f"/api/v1/namespaces/{self.namespace}/pods/{pod}:8000/proxy/faults"
        self.kubectl("create", "--raw", base, "-f", "-", input=json.dumps(faults))

    def load(self, *args: str, pod: str = "") -> str:
        """Start a bounded load, on the Service or one pod, from a pod of its own: its name."""
        name = f"load-{len(self.loads)}"
        self.loads.append(name)
        if pod:
            address = self.get("pod", pod)["status"]["podIP"]
        else:
            address = self.get("service", self.name)["spec"]["clusterIP"]
        self.kubectl(
            "run",
            name,
            f"--image={ENGINE_IMAGE}",
            "--image-pull-policy=Never",
            "--restart=Never",
            "--command",
            "--",
            "cacheaware",
            "simulate",
            "load",
            f"http://{address}:8000",
            *args,
        )
        return name

    def end_loads(self) -> None:
        """Take the load away at once."""
        for name in self.loads:
            self.kubectl("delete", "pod", name, "--grace-period=0", "--force", "--ignore-not-found")
        self.loads.clear()


def documents(path: str) -> list[dict[str, Any]]:
    """The objects of a file below manifests/."""
    return [copy.deepcopy(doc) for doc in yaml.safe_load_all((MANIFESTS / path).read_text()) if doc]


def shaped(
    document: dict[str, Any], *, replicas: int, engine: tuple[str, ...], sidecar: bool
) -> dict[str, Any]:
    """The manifest's object with a number of replicas and more engine arguments."""
    if document["kind"] != "Deployment":
        return document
    document["spec"]["replicas"] = replicas
    spec = document["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    container["args"] = [*container["args"], *engine]
    if not sidecar:
        del spec["initContainers"], container["lifecycle"]
    return document


def named(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The one object of a kind."""
    (found,) = [document for document in objects if document["kind"] == kind]
    return found


def condition(pod: dict[str, Any], kind: str) -> str:
    """The status of a pod's condition."""
    found = [c["status"] for c in pod["status"].get("conditions", []) if c["type"] == kind]
    return found[0] if found else "Unknown"
