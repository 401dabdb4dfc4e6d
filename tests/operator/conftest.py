"""Fixtures of the operator's tests: a fake API server, fake pods, and the operator against them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.operator.fake_api import FakeApi
from tests.operator.fake_pods import FakeFleet, FakePod, FakeWorkloads

from cacheaware import names
from cacheaware.controller.app import Operator, assemble, run
from cacheaware.kube import Kube
from cacheaware.settings import Settings

SCALERS = (names.GROUP, names.VERSION, names.PLURAL)


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as server:
        yield server


@pytest.fixture
async def kube(api: FakeApi) -> AsyncIterator[Kube]:
    client = Kube(loader(api))
    yield client
    await client.close()


def loader(api: FakeApi, token: Callable[[], str] = lambda: "secret-token") -> Any:
    from kubernetes.aio.client import Configuration

    async def load() -> Configuration:
        found = Configuration(host=api.url)
        found.api_key = {"BearerToken": f"bearer {token()}"}
        return found

    return load


def scaler_body(ns: str = "demo", name: str = "chat", **spec: Any) -> dict[str, Any]:
    """A CacheAwareScaler of a Deployment of the same name."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {
        "metadata": {"namespace": ns, "name": name},
        "spec": {
            "scaleTargetRef": target,
            "mode": "Scale",
            "minReplicas": 1,
            "maxReplicas": 10,
            **spec,
        },
    }


@dataclass
class World:
    """A cluster with fake pods, and at most one operator in it."""

    api: FakeApi
    fleet: FakeFleet
    workloads: FakeWorkloads
    settings: Settings
    operator: Operator | None = None
    task: asyncio.Task[int] | None = None

    async def scaler(self, ns: str = "demo", name: str = "chat", **spec: Any) -> dict[str, Any]:
        return await self.api.put(SCALERS, scaler_body(ns, name, **spec))

    def status(self, ns: str = "demo", name: str = "chat") -> dict[str, Any]:
        return self.api.get(SCALERS, ns, name).get("status") or {}

    def condition(self, kind: str, ns: str = "demo", name: str = "chat") -> dict[str, Any]:
        found = self.status(ns, name).get("conditions") or ()
        return next((one for one in found if one["type"] == kind), {})

    def replicas(self, ns: str = "demo", name: str = "chat") -> int:
        return self.api.get(("apps", "v1", "deployments"), ns, name)["spec"].get("replicas", 1)

    def events(self, reason: str | None = None) -> list[dict[str, Any]]:
        found = self.api.all(("", "v1", "events"))
        return [one for one in found if reason in (None, one["reason"])]

    async def event(self, reason: str, containing: str = "") -> dict[str, Any]:
        """The first event of this reason; it is written after what it tells of was done."""

        def told() -> dict[str, Any] | None:
            found = (one for one in self.events(reason) if containing in one["message"])
            return next(found, None)

        return await self.until(told)

    def scale_writes(self) -> list[Any]:
        return [c for c in self.api.calls if c.method != "GET" and c.path.endswith("/scale")]

    async def start(self, **settings: Any) -> Operator:
        """Start an operator in this process."""
        self.operator = assemble(replace(self.settings, **settings), loader(self.api))
        self.task = asyncio.create_task(run(self.operator))
        return self.operator

    async def end(self) -> int:
        """Stop it in order."""
        self.operator.stop.set()
        async with asyncio.timeout(20):
            code = await self.task
        self.task = None
        return code

    async def until(self, holds: Callable[[], Any], seconds: float = 30.0) -> Any:
        """Wait for something to become true."""
        async with asyncio.timeout(seconds):
            while not (found := quiet(holds)):  # noqa: ASYNC110 - the world outside has no Event
                await asyncio.sleep(0.02)
        return found

    async def rounds(self, count: int) -> None:
        """Let a number of rounds pass."""
        for _ in range(count):
            before = self.operator.rounds.completed_at
            await self.until(lambda: self.operator.rounds.completed_at != before)  # noqa: B023


def quiet(holds: Callable[[], Any]) -> Any:
    with contextlib.suppress(KeyError):
        return holds()
    return None


@pytest.fixture
async def world(api: FakeApi) -> AsyncIterator[World]:
    async with FakeFleet() as fleet:
        workloads = FakeWorkloads(api, fleet)
        settings = Settings(round_seconds=0.2, port=0, lease_namespace="ops", pod_name="op-0")
        found = World(api, fleet, workloads, settings)
        account = {"metadata": {"namespace": "ops", "name": "op"}}
        await api.put(("", "v1", "serviceaccounts"), account)
        for namespace in ("demo", "ops"):
            await api.put(("", "v1", "namespaces"), {"metadata": {"name": namespace}})
        keeper = asyncio.create_task(workloads.run())
        yield found
        if found.task is not None:
            await found.end()
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


__all__ = ["FakePod", "World", "scaler_body"]
