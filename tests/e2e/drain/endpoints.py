"""Who is in the endpoints of a Service, and since when: a watch with timestamps."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

from tests.e2e.workload import Fleet, eventually


@dataclass(slots=True)
class Endpoints:
    """What the EndpointSlice of a Service said and when it said it (Unix seconds)."""

    history: list[tuple[float, frozenset[str]]] = field(default_factory=list)
    """Each change: when it was seen, and the pods that are ready then."""

    def ready(self) -> frozenset[str]:
        """Pods that get new connections now."""
        return self.history[-1][1] if self.history else frozenset()

    def left(self, pod: str, after: float = 0.0, within: float = 30) -> float:
        """When a pod had left, waited for."""
        eventually(lambda: self._first(pod, after, present=False), within=within, every=0.05)
        return self._first(pod, after, present=False)

    def came(self, pod: str, after: float = 0.0, within: float = 30) -> float:
        """When a pod had come, waited for."""
        eventually(lambda: self._first(pod, after, present=True), within=within, every=0.05)
        return self._first(pod, after, present=True)

    def _first(self, pod: str, after: float, *, present: bool) -> float:
        for when, pods in self.history:
            if when >= after and (pod in pods) is present:
                return when
        return 0.0

    def follow(self, stream: IO[str]) -> None:
        """Take in a stream of JSON objects until it ends."""
        decoder, text = json.JSONDecoder(), ""
        for line in stream:
            text += line
            if line.rstrip() != "}":
                continue
            entry, _ = decoder.raw_decode(text)
            text = ""
            self.history.append((time.time(), ready_pods(entry)))


def ready_pods(endpoint_slice: dict[str, Any]) -> frozenset[str]:
    """The pods that a slice says are ready."""
    return frozenset(
        endpoint["targetRef"]["name"]
        for endpoint in endpoint_slice.get("endpoints") or ()
        if endpoint["conditions"].get("ready")
    )


@contextmanager
def watched(fleet: Fleet) -> Iterator[Endpoints]:
    """The endpoints of the fleet's Service (it has one slice: fewer than 100 pods, one family)."""
    argv = [
        *(str(fleet.cluster.kubectl_program), "--kubeconfig", str(fleet.cluster.kubeconfig)),
        *("-n", fleet.namespace, "get", "endpointslices", "--watch", "-o", "json"),
        *("-l", f"kubernetes.io/service-name={fleet.name}"),
    ]
    endpoints = Endpoints()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=endpoints.follow, args=(process.stdout,))
        reader.start()
        try:
            eventually(lambda: endpoints.history, within=10, every=0.05, what="the watch's word")
            yield endpoints
        finally:
            process.terminate()
            reader.join(10)
