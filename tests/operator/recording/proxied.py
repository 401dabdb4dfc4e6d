"""A workload in the fake API whose pods answer through its proxy."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from tests.operator.conftest import scaler_body
from tests.operator.fake_api import FakeApi, failure
from tests.operator.fake_pods import DEPLOYMENTS, PODS, FakePod

from cacheaware import names

SCALERS = (names.GROUP, names.VERSION, names.PLURAL)
NOT_REACHED = "error trying to reach service: dial tcp 10.9.8.7:9440: connect: connection refused"
TIMED_OUT = "error trying to reach service: dial tcp 10.9.8.7:9440: i/o timeout"
FORBIDDEN = 'pods "chat-1" is forbidden: User "me" cannot get resource "pods/proxy" in API group ""'
GPU_TEMPLATE = {
    "metadata": {"labels": {"app": "chat"}},
    "spec": {
        "containers": [
            {"name": "engine", "resources": {"limits": {"nvidia.com/gpu": "2"}}},
            {"name": "sidecar"},
        ]
    },
}


@dataclass
class Pods:
    """Pods by name; what they answer can be changed at any time."""

    answers: dict[str, FakePod | web.Response | str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """What the API server makes of a pod's answer."""
        self.asked.append(request.path)
        pod = request.path.split("/pods/")[1].split("/")[0]
        answer = self.answers[pod.removeprefix("https:").split(":")[0]]
        if answer == "hang":
            await asyncio.sleep(3600)
        if answer == "forbidden":
            return failure(403, "Forbidden", FORBIDDEN)
        if answer in (NOT_REACHED, TIMED_OUT):
            return failure(503, "ServiceUnavailable", str(answer))
        if isinstance(answer, FakePod):
            if answer.behaviour.isdigit():
                return web.json_response({"error": "no"}, status=int(answer.behaviour))
            if request.path.endswith("/v1/state"):
                return web.json_response(answer.state())
            return web.Response(text=answer.metrics())
        return web.Response(text=str(answer))


def deployment(replicas: int, template: Any = GPU_TEMPLATE) -> dict[str, Any]:
    """A Deployment named chat."""
    return {
        "metadata": {"name": "chat", "namespace": "demo"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "chat"}},
            "template": template,
        },
        "status": {
            "replicas": replicas,
            "updatedReplicas": replicas,
            "observedGeneration": 1,
        },
    }


def pod(name: str, *, sidecar: bool = True, ip: str | None = "10.9.8.7") -> dict[str, Any]:
    """One of its pods, Ready."""
    time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ports = [{"name": names.SIDECAR_PORT_NAME, "containerPort": 9440}] if sidecar else []
    return {
        "metadata": {"name": name, "namespace": "demo", "labels": {"app": "chat"}},
        "spec": {"nodeName": "gpu-node-7", "containers": [{"name": "engine", "ports": ports}]},
        "status": {
            "phase": "Running",
            **({"podIP": ip} if ip else {}),
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": time}],
        },
    }


async def workload(api: FakeApi, pods: Pods, **spec: Any) -> dict[str, Any]:
    """The scaler, its target and pods; returns the scaler's object."""
    api.proxied = pods.answer
    await api.put(DEPLOYMENTS, deployment(len(pods.answers)))
    for name, answer in pods.answers.items():
        paged = isinstance(answer, FakePod) and answer.page is not None
        await api.put(PODS, pod(name, sidecar=not paged))
    return await api.put(SCALERS, scaler_body(**spec))
