"""A cluster for the operator in a process of its own: `python -m tests.operator.scale.cluster`.

It prints a JSON line with its address, another when each scaler had a few rounds, and
for each line `SECONDS CHANGES` on stdin one with what came of so many changed loads in that time.
"""

import asyncio
import contextlib
import json
import resource
import sys
import time
from collections import defaultdict
from itertools import pairwise
from typing import Any

from aiohttp import web
from tests.operator.fake_api import FakeApi, Route
from tests.operator.fake_pods import DEPLOYMENTS, PODS
from tests.operator.scale.sidecars import FULL, Sidecars

from cacheaware import names

SCALERS = (names.GROUP, names.VERSION, names.PLURAL)
NAMESPACES = 20
KEPT_EVENTS = 500
ROUNDS_TO_BE_WARM = 3
WAITING = 40
"""Requests per pod in a changed load."""
PATIENCE_S = 10.0
"""The last changed load has this long to be answered."""
OLD = "2020-01-01T00:00:00Z"


class Cluster(FakeApi):
    """The API server, what it keeps of each target, and the pods' sidecars."""

    def __init__(self, sidecars: Sidecars) -> None:
        super().__init__()
        self.bookmark_seconds = 30.0
        self.sidecars = sidecars
        self.written: dict[tuple[str, str], float] = {}
        """When its replicas were first written."""
        self.writes_seen = 0
        self.addresses: dict[tuple[str, str], list[str]] = defaultdict(list)

    async def fill(self, scalers: int, pods_each: int) -> None:
        """Put everything there."""
        await self.put(("", "v1", "namespaces"), {"metadata": {"name": "ops"}})
        for number in range(NAMESPACES):
            await self.put(("", "v1", "namespaces"), {"metadata": {"name": f"team-{number}"}})
        for number in range(scalers):
            space, name = f"team-{number % NAMESPACES}", f"llm-{number}"
            labels = {"app": name}
            status = {"replicas": pods_each, "updatedReplicas": pods_each, "observedGeneration": 1}
            deployment = {
                "metadata": {"name": name, "namespace": space},
                "spec": {"replicas": pods_each, "selector": {"matchLabels": labels}},
                "status": status,
            }
            await self.put(DEPLOYMENTS, deployment)
            for at in range(pods_each):
                await self.pod(space, name, at)
            await self.put(SCALERS, scaler(space, name, pods_each))
        self.log.clear()

    async def pod(self, space: str, name: str, at: int) -> None:
        """A pod that serves."""
        address = self.sidecars.add()
        self.addresses[space, name].append(address)
        port = {"name": names.SIDECAR_PORT_NAME, "containerPort": self.sidecars.port}
        hook = {"preStop": {"exec": {"command": ["python3", "/cacheaware/wait.py"]}}}
        container = {"name": "engine", "ports": [port], "lifecycle": hook}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": OLD}
        meta = {"name": f"{name}-{at}", "namespace": space, "labels": {"app": name}}
        status = {"phase": "Running", "podIP": address, "conditions": [ready]}
        spec = {"nodeName": f"node-{at}", "containers": [container]}
        await self.put(PODS, {"metadata": meta, "spec": spec, "status": status})

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        del self.calls[:-100], self.log[:-KEPT_EVENTS]
        if request.method != "GET":
            self.writes_seen += 1
        return await super()._handle(request)

    async def _serve(self, request: web.Request, route: Route, body: Any) -> web.StreamResponse:
        key = (route.namespace or "", route.name or "")
        response = await super()._serve(request, route, body)
        if route.subresource == "scale" and request.method == "PATCH" and response.status == 200:
            self.written.setdefault(key, time.monotonic())
            await self._follow(*key, body["spec"]["replicas"])
        return response

    async def _follow(self, space: str, name: str, replicas: int) -> None:
        """What a Deployment's controller does."""
        for at in range(len(self.addresses[space, name]), replicas):
            await self.pod(space, name, at)
        generation = self.get(DEPLOYMENTS, space, name)["metadata"]["generation"]
        status = {"replicas": replicas, "updatedReplicas": replicas}
        patch = {"status": {**status, "observedGeneration": generation}}
        await self.edit(DEPLOYMENTS, space, name, patch)

    def rounds(self) -> list[list[float]]:
        """When a pod of each target was asked: once in each round."""
        return [self.sidecars.by_address[pods[0]].asked for pods in self.addresses.values()]

    async def warm(self) -> None:
        """Wait until every target had a few rounds."""
        while min(map(len, self.rounds())) < ROUNDS_TO_BE_WARM:  # noqa: ASYNC110
            await asyncio.sleep(0.2)

    async def measure(self, seconds: float, changes: int) -> dict[str, Any]:
        """Change the loads of some targets, one after the other; what was seen meanwhile."""
        for asked in self.rounds():
            del asked[:-1]
        self.written.clear()
        states, writes, began = self.sidecars.asked, self.writes_seen, time.monotonic()
        changed = {}
        each = max(1, len(self.addresses) // max(1, changes))
        for target in list(self.addresses)[::each][:changes]:
            await asyncio.sleep(max(0.0, seconds - PATIENCE_S) / changes)
            for address in self.addresses[target]:
                one = self.sidecars.by_address[address]
                one.usage, one.waiting = FULL, WAITING
            changed[target] = time.monotonic()
        await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
        took = time.monotonic() - began
        return {
            "seconds": took,
            "states_per_s": (self.sidecars.asked - states) / took,
            "writes_per_s": (self.writes_seen - writes) / took,
            "gaps": [
                later - earlier for asked in self.rounds() for earlier, later in pairwise(asked)
            ],
            "delays": [self.written.get(one, float("inf")) - at for one, at in changed.items()],
            "unasked": [now for now in self.written if now not in changed],
        }


def scaler(space: str, name: str, pods: int) -> dict[str, Any]:
    """A CacheAwareScaler that scales."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    spec = {"scaleTargetRef": target, "mode": "Scale"}
    meta = {"namespace": space, "name": name}
    return {
        "metadata": meta,
        "spec": {**spec, "minReplicas": pods, "maxReplicas": 2 * pods},
    }


def tell(what: dict[str, Any]) -> None:
    """One JSON line."""
    print(json.dumps(what), flush=True)


async def main(scalers: int, pods_each: int) -> None:
    """Run until stdin ends."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sidecars = Sidecars()
    await sidecars.start()
    async with Cluster(sidecars) as cluster:
        await cluster.fill(scalers, pods_each)
        tell({"url": cluster.url})
        await cluster.warm()
        tell({"warm": True})
        while line := await asyncio.to_thread(sys.stdin.readline):
            seconds, changes = line.split()
            tell(await cluster.measure(float(seconds), int(changes)))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
