"""The fleet on the cluster, moment by moment, at the cost of a few HTTP calls each."""

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx
from tests.e2e.trace.agreement import STEP_S, Moment
from tests.e2e.workload import Fleet, condition

WITH_REQUESTS = {"serving", "cordoned", "draining"}
SERVING_AT = re.compile(r"127\.0\.0\.1:(\d+)")


@contextmanager
def api(fleet: Fleet) -> Iterator[httpx.Client]:
    """A client of the cluster's API: one `kubectl proxy` instead of a process for each look."""
    argv = [
        *(str(fleet.cluster.kubectl_program), "--kubeconfig", str(fleet.cluster.kubeconfig)),
        *("proxy", "--port=0"),
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = SERVING_AT.search(process.stdout.readline())
            assert port, "kubectl proxy tells its port"
            base = f"http://127.0.0.1:{port[1]}"
            with httpx.Client(base_url=base, timeout=3.0, trust_env=False) as client:
                yield client
        finally:
            process.terminate()


@dataclass(slots=True)
class Watch:
    """What was seen of a fleet; times are Unix seconds."""

    fleet: Fleet
    client: httpx.Client
    seen: list[Moment] = field(default_factory=list)
    cold_starts_s: dict[str, float] = field(default_factory=dict)
    """From created to Ready by pod, when it was first seen to be Ready."""
    every_s: float = STEP_S

    def follow(self, going: Callable[[], bool], within: float) -> None:
        """Look each five seconds while `going`; what can't be read is left out."""
        began = time.monotonic()
        for turn in range(int(within / self.every_s)):
            time.sleep(max(0.0, began + turn * self.every_s - time.monotonic()))
            if not going():
                return
            try:
                self.look()
            except httpx.HTTPError as error:
                print(f"not seen: {error!r}")
        raise AssertionError(f"still going after {within:g} s")

    def look(self) -> None:
        """Take in what the cluster shows now."""
        apps = f"/apis/apps/v1/namespaces/{self.fleet.namespace}"
        deployment = self._json(f"{apps}/deployments/{self.fleet.name}")
        pods = self._json(self._core("pods"), labelSelector=f"app={self.fleet.name}")["items"]
        states = {name_of(pod): self._state(pod) for pod in pods if "podIP" in pod["status"]}
        for pod in pods:
            if ready(pod) and "deletionTimestamp" not in pod["metadata"]:
                self.cold_starts_s.setdefault(name_of(pod), cold_start_s(pod))
        replicas = int(deployment["spec"]["replicas"])
        self.seen.append(moment(time.time(), replicas, pods, states))

    def _core(self, path: str) -> str:
        return f"/api/v1/namespaces/{self.fleet.namespace}/{path}"

    def _json(self, path: str, **query: str) -> Any:
        return self.client.get(path, params=query).raise_for_status().json()

    def _state(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """The pod's /v1/state; empty where it does not answer."""
        try:
            answer: dict[str, Any] = self._json(
                self._core(f"pods/{name_of(pod)}:9440/proxy/v1/state")
            )
        except (httpx.HTTPError, ValueError):
            return {}
        return answer


def moment(
    at_s: float,
    replicas: int,
    pods: Sequence[Mapping[str, Any]],
    states: Mapping[str, Mapping[str, Any]],
) -> Moment:
    """The fleet as its pods and their states show it.

    Pods that load or warm up have no requests of clients; one that is not Ready and does not answer
    has not begun or has ended.
    """
    told = [
        states.get(name_of(pod), {})
        for pod in pods
        if ready(pod) or states.get(name_of(pod), {}).get("phase") in WITH_REQUESTS
    ]
    serving = [pod for pod in pods if ready(pod) and "deletionTimestamp" not in pod["metadata"]]
    return Moment(
        at_s=at_s,
        replicas=replicas,
        pods=len(pods),
        serving=len(serving),
        running=_sum(told, "running"),
        waiting=_sum(told, "waiting"),
    )


def _sum(states: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Over all pods; None if one of them does not tell."""
    values = [state.get(name) for state in states]
    known = [float(value) for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def ready(pod: Mapping[str, Any]) -> bool:
    """Whether it is in the endpoints."""
    return condition(dict(pod), "Ready") == "True"


def name_of(pod: Mapping[str, Any]) -> str:
    """The pod's name."""
    return str(pod["metadata"]["name"])


def cold_start_s(pod: Mapping[str, Any]) -> float:
    """From created to Ready, by the API's clock (whole seconds)."""
    (since,) = [
        one["lastTransitionTime"] for one in pod["status"]["conditions"] if one["type"] == "Ready"
    ]
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    return (datetime.fromisoformat(since) - created).total_seconds()
