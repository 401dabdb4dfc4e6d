"""Fake pods on loopback addresses, and the controllers that make and remove them."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web
from tests.operator.fake_api import FakeApi

from cacheaware import names

PODS = ("", "v1", "pods")
DEPLOYMENTS = ("apps", "v1", "deployments")


@dataclass
class FakePod:
    """How one pod answers."""

    phase: str = "serving"
    usage: float | None = 0.1
    running: float | None = 1
    waiting: float | None = 0
    capacity: float | None = 10_000
    seq: int | None = None
    age_s: float | None = 0.2
    behaviour: str = "ok"
    """ok, hang, drip, drop, redirect, redirect-loop, offhost, garbage, huge, or a status."""
    page: str | None = None
    key: str | None = None
    latency_s: float = 0.0
    asked: int = 0
    frozen_seq: bool = False
    cordon_status: int = 200
    """What a cordon is answered; 0 hangs."""
    cordoned_by: str | None = None
    cordoned_at: float = 0.0
    arrives: bool = False
    """Requests go on arriving although it is cordoned."""
    calls: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    """Control calls: name, body, token."""
    extra: dict[str, Any] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        """The JSON of /v1/state."""
        self.asked += 1
        used = None if self.usage is None or self.capacity is None else self.usage * self.capacity
        return {
            "schema": 1,
            "phase": self.phase,
            "phase_age_s": 100.0,
            "sample_age_s": self.age_s,
            "sample_seq": self.seq if self.frozen_seq else self.asked,
            "engine": "vllm",
            "running": self.running,
            "waiting": self.waiting,
            "kv": {
                "usage": self.usage,
                "usage_max": self.usage,
                "used_tokens": used,
                "capacity_tokens": self.capacity,
            },
            "drain": self.drain(),
            **self.extra,
        }

    def drain(self) -> dict[str, Any]:
        """The cordon, as the state tells it."""
        if self.cordoned_by is None:
            return {}
        lasts = time.monotonic() - self.cordoned_at
        return {
            "cordoned_by": self.cordoned_by,
            "cordoned_s": lasts,
            "lease_s": 60.0,
            "empty": not self.running and not self.waiting,
            "arrival_age_s": 0.0 if self.arrives else None,
        }

    async def control(self, name: str, body: dict[str, Any], token: str) -> web.Response:
        """A control call."""
        self.calls.append((name, body, token))
        if self.cordon_status == 0:
            await asyncio.sleep(3600)
        if self.cordon_status != 200:
            return web.Response(status=self.cordon_status, text="not by you\n")
        if name == "cordon" and self.cordoned_by is None:
            self.phase, self.cordoned_by, self.cordoned_at = (
                "cordoned",
                body["by"],
                time.monotonic(),
            )
        if name == "uncordon":
            self.phase, self.cordoned_by = "serving", None
        return web.json_response({"phase": self.phase, "lease_s": 60.0, "deadline_s": 10.0})

    def metrics(self) -> str:
        """The engine's page."""
        self.asked += 1
        if self.page is not None:
            return self.page
        label = '{engine="0",model_name="m-8b"}'
        lines = [
            f"vllm:num_requests_running{label} {self.running}",
            f"vllm:num_requests_waiting{label} {self.waiting}",
            f"vllm:kv_cache_usage_perc{label} {self.usage}",
        ]
        return "\n".join(lines) + "\n"


class FakeFleet:
    """One server for all pods: the address that is asked tells which."""

    def __init__(self) -> None:
        self.pods: dict[str, FakePod] = {}
        self.port = 0
        self._runner: web.AppRunner | None = None
        self._count = 0

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/{tail:.*}", self._answer)
        app.router.add_post("/{name}", self._control)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "0.0.0.0", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def add(self, pod: FakePod | None = None) -> str:
        """A pod with an address of its own."""
        self._count += 1
        ip = f"127.1.{self._count // 250}.{self._count % 250 + 1}"
        self.pods[ip] = pod or FakePod()
        return ip

    async def _control(self, request: web.Request) -> web.Response:
        pod = self.pods[request.transport.get_extra_info("sockname")[0]]
        token = request.headers.get("Authorization", "")
        return await pod.control(request.match_info["name"], await request.json(), token)

    async def _answer(  # noqa: C901, PLR0911 - a table of behaviours
        self, request: web.Request
    ) -> web.StreamResponse:
        pod = self.pods[request.transport.get_extra_info("sockname")[0]]
        await asyncio.sleep(pod.latency_s)
        if pod.behaviour == "hang":
            await asyncio.sleep(3600)
        if pod.behaviour == "redirect" and not request.path.endswith("/"):
            return web.Response(status=307, headers={"Location": request.path + "/"})
        if pod.behaviour == "redirect-loop":
            return web.Response(status=307, headers={"Location": request.path})
        if pod.behaviour == "drop":
            request.transport.close()
        if pod.behaviour == "drip":
            return await drip(request)
        if pod.behaviour == "offhost":
            return web.Response(status=307, headers={"Location": "http://169.254.169.254/latest/"})
        if pod.behaviour == "garbage":
            return web.Response(body=b"\xff\xfe not what you want")
        if pod.behaviour == "huge":
            return web.Response(body=b"x" * (9 * 1024 * 1024))
        if pod.behaviour.isdigit():
            return web.Response(status=int(pod.behaviour), text='{"error":"no"}')
        if pod.key is not None and request.headers.get("Authorization") != f"Bearer {pod.key}":
            return web.Response(status=401, text='{"error":"Invalid API Key"}')
        if request.path.startswith("/v1/state"):
            return web.json_response(pod.state())
        return web.Response(text=pod.metrics())


async def drip(request: web.Request) -> web.StreamResponse:
    """A body that never ends."""
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(600):
        await response.write(b"x")
        await asyncio.sleep(0.1)
    return response


@dataclass
class FakeWorkloads:
    """The Deployment controller: makes pods, removes them by deletion cost, keeps the status."""

    api: FakeApi
    fleet: FakeFleet
    sidecar: bool = True
    make: Callable[[], FakePod] = FakePod
    ready: bool = True
    final_drain: bool = True
    count: int = 0
    removed: list[str] = field(default_factory=list)

    async def deployment(self, ns: str, name: str, replicas: int) -> None:
        """Create a Deployment and its pods."""
        labels = {"app": name}
        body = {
            "metadata": {"name": name, "namespace": ns},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}},
            "status": {},
        }
        await self.api.put(DEPLOYMENTS, body)
        await self.reconcile()

    async def run(self) -> None:
        """Keep all Deployments in order."""
        while True:
            await self.reconcile()
            await asyncio.sleep(0.02)

    async def reconcile(self) -> None:
        """One pass."""
        for deployment in self.api.all(DEPLOYMENTS):
            await self._one(deployment)

    def pods_of(self, ns: str, name: str) -> list[dict[str, Any]]:
        pods = self.api.all(PODS, ns)
        return [pod for pod in pods if pod["metadata"]["labels"].get("app") == name]

    def fakes_of(self, ns: str, name: str) -> list[FakePod]:
        return [self.fleet.pods[pod["status"]["podIP"]] for pod in self.pods_of(ns, name)]

    async def _one(self, deployment: dict[str, Any]) -> None:
        meta, wanted = deployment["metadata"], deployment["spec"].get("replicas", 1)
        ns, name = meta["namespace"], meta["name"]
        pods = self.pods_of(ns, name)
        for _ in range(wanted - len(pods)):
            await self.pod(ns, name)
        for pod in sorted(pods, key=cost)[: max(0, len(pods) - wanted)]:
            self.removed.append(pod["metadata"]["name"])
            await self.api.delete(PODS, ns, pod["metadata"]["name"])
        await self._ready(ns, pods)
        status = {
            "replicas": wanted,
            "updatedReplicas": wanted,
            "observedGeneration": meta.get("generation", 1),
        }
        if deployment.get("status") != status:
            await self.api.edit(DEPLOYMENTS, ns, name, {"status": status})

    async def _ready(self, ns: str, pods: list[dict[str, Any]]) -> None:
        """A pod that is cordoned is not Ready, one that serves is."""
        for pod in pods:
            fake = self.fleet.pods[pod["status"]["podIP"]]
            (ready,) = pod["status"]["conditions"]
            wanted = "False" if fake.cordoned_by or not self.ready else "True"
            if ready["status"] != wanted and pod["metadata"]["name"] not in self.removed:
                name, changed = pod["metadata"]["name"], {**ready, "status": wanted}
                await self.api.edit(PODS, ns, name, {"status": {"conditions": [changed]}})

    async def pod(self, ns: str, name: str) -> str:
        """Create one pod."""
        self.count += 1
        pod_name = f"{name}-{self.count:03d}"
        ip = self.fleet.add(self.make())
        port = {"name": names.SIDECAR_PORT_NAME if self.sidecar else "http"}
        engine: dict[str, Any] = {
            "name": "engine",
            "ports": [{**port, "containerPort": self.fleet.port}],
        }
        if self.final_drain:
            command = ["python3", "/cacheaware/wait.py"]
            engine["lifecycle"] = {"preStop": {"exec": {"command": command}}}
        ready = {"type": "Ready", "status": "True" if self.ready else "False"}
        await self.api.put(
            PODS,
            {
                "metadata": {"name": pod_name, "namespace": ns, "labels": {"app": name}},
                "spec": {"nodeName": "node-1", "containers": [engine]},
                "status": {
                    "phase": "Running",
                    "podIP": ip,
                    "conditions": [{**ready, "lastTransitionTime": "2020-01-01T00:00:00Z"}],
                },
            },
        )
        return pod_name


def cost(pod: dict[str, Any]) -> tuple[bool, int, str]:
    """The order in which a ReplicaSet gives pods up: not Ready first, then by cost."""
    annotations = pod["metadata"].get("annotations") or {}
    ready = pod["status"]["conditions"][0]["status"] == "True"
    return ready, int(annotations.get(names.DELETION_COST, 0)), pod["metadata"]["name"]


__all__ = ["FakeFleet", "FakePod", "FakeWorkloads"]
