"""An API server that throttles, fails, prunes or goes; an engine that fails. One at a time."""

import asyncio
from itertools import pairwise

import aiohttp
import pytest
from tests.operator.conftest import loader, scaler_body
from tests.operator.fake_api import Fault
from tests.operator.fake_pods import FakePod

from cacheaware import names
from cacheaware.api.crd import crd
from cacheaware.controller.schema import outdated_fields
from cacheaware.decide.policy import PRUNED

DEPLOYMENTS = ("apps", "v1", "deployments")
SCALERS = (names.GROUP, names.VERSION, names.PLURAL)
CRDS = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")


async def loaded(world, name="chat", *, replicas=1, usage=0.99, waiting=20, **spec):
    world.workloads.make = lambda: FakePod(usage=usage, waiting=waiting)
    await world.workloads.deployment("demo", name, replicas)
    await world.scaler(name=name, **spec)


def scale_writes(world, name="chat"):
    return [call for call in world.scale_writes() if f"/{name}/" in call.path]


async def test_a_throttled_write_waits_and_is_then_done_on_fresh_input(world):
    """After the outage the load is another, so an old decision would be the wrong one."""
    await loaded(world)
    throttled = Fault(
        lambda method, path: method == "PATCH" and path.endswith("/scale"),
        status=429,
        reason="TooManyRequests",
        headers={"Retry-After": "1"},
        times=1,
    )
    world.api.faults.append(throttled)
    await world.start()
    await world.until(lambda: world.condition("AbleToScale").get("status") == "False")
    assert world.condition("AbleToScale")["reason"] == "WriteFailed"
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.usage, pod.waiting = 0.95, 0
    await world.until(lambda: world.replicas() > 1, 15)
    writes = scale_writes(world)
    gaps = [second.at - first.at for first, second in pairwise(writes)]
    assert len(writes) == 2
    assert all(gap >= 1.0 for gap in gaps)
    assert writes[-1].body["spec"]["replicas"] == 2
    await world.until(lambda: world.condition("AbleToScale").get("status") == "True")


async def test_a_status_that_is_refused_for_ever_slows_only_itself(world):
    await loaded(world, "bad")
    await loaded(world, "good")
    refused = Fault(
        lambda method, path: method == "PATCH" and path.endswith("/bad/status"),
        status=422,
        reason="Invalid",
    )
    world.api.faults.append(refused)
    await world.start()
    await world.until(lambda: world.replicas(name="good") > 1 and world.replicas(name="bad") > 1)
    await world.rounds(10)
    tries = [c for c in world.api.writes() if c.path.endswith("/bad/status")]
    assert 1 <= len(tries) <= 3
    assert world.status(name="good")["lastScaleTime"]


async def test_pods_that_cannot_be_listed_decide_nothing_and_then_all_goes_on(world):
    await loaded(world)
    world.api.faults.append(Fault(lambda _, path: path.endswith("/pods"), 403, "Forbidden"))
    operator = await world.start()
    await world.until(lambda: world.condition("Ready").get("status") == "False")
    assert world.condition("MetricsAvailable")["reason"] == "PodsNotListed"
    assert "403 Forbidden" in world.condition("ScalingActive")["message"]
    await world.rounds(3)
    assert (await world.event("PodsNotListed"))["count"] == 1
    assert len(world.events("PodsNotListed")) == 1
    assert operator.health.ready(), "another namespace may well be served"
    assert world.scale_writes() == []
    world.api.faults.clear()
    await world.until(lambda: world.replicas() > 1, 20)
    await world.until(lambda: world.condition("Ready").get("status") == "True")


async def test_a_throttled_watch_is_begun_again(world):
    for what in ("cacheawarescalers", "horizontalpodautoscalers"):
        throttled = Fault(
            lambda _, path, what=what: path.endswith(what), status=429, times=1,
            headers={"Retry-After": "1"},
        )  # fmt: skip
        world.api.faults.append(throttled)
    await world.start()
    await asyncio.sleep(0.5)
    await loaded(world)
    await world.until(lambda: world.replicas() > 1, 20)


async def test_the_token_is_rotated_without_a_failed_round(world):
    await loaded(world, usage=0.5, waiting=0)
    tokens = ["A"]
    world.api.tokens = {"A"}
    from tests.operator import conftest

    keep = conftest.loader
    conftest.loader = lambda api: loader(api, lambda: tokens[-1])
    try:
        operator = await world.start()
    finally:
        conftest.loader = keep
    await world.until(lambda: world.condition("Ready").get("status") == "True")
    tokens.append("B")
    world.api.tokens = {"B"}
    await world.rounds(3)
    assert not list(operator.metrics.failed_rounds.collect()[0].samples)
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.usage, pod.waiting = 0.99, 20
    await world.until(lambda: world.replicas() > 1)


async def test_an_old_crd_that_drops_status_fields_is_reported(world):
    await loaded(world)

    def prune(route, body):
        kept = {k: v for k, v in body["status"].items() if k in {"conditions", "currentReplicas"}}
        return {**body, "status": kept} if route.resource == SCALERS else body

    world.api.store = prune
    await world.start()
    assert "status.desiredReplicas" in (await world.event("SchemaOutdated"))["message"]
    await world.rounds(5)
    assert (await world.event("SchemaOutdated"))["count"] == 1


async def test_an_old_crd_is_reported_at_start_and_a_dropped_limit_is_the_safe_one(world, case):
    old = crd()
    old["spec"] = {
        **old["spec"],
        "versions": [
            {**version, "schema": {"openAPIV3Schema": without(schema_of(version), "behavior")}}
            for version in old["spec"]["versions"]
        ],
    }
    await world.api.put(CRDS, old)
    missing = await outdated_fields((await started(world)).kube)
    assert any("behavior" in field for field in missing) is case("097", "expect.json")["reported"]
    body = scaler_body(behavior={"scaleUp": {"policies": []}})
    await loaded(world)
    await world.until(lambda: world.condition(names.Conditions.SCHEMA_OUTDATED).get("status"))
    assert "behavior" in world.condition(names.Conditions.SCHEMA_OUTDATED)["message"]
    assert PRUNED.value == case("097", "expect.json")["effective_limit"]
    assert body["spec"]["behavior"]["scaleUp"]["policies"] == []


async def started(world):
    return await world.start()


def schema_of(version):
    return version["schema"]["openAPIV3Schema"]


def without(schema, field):
    spec = schema["properties"]["spec"]
    kept = {name: one for name, one in spec["properties"].items() if name != field}
    return {
        **schema,
        "properties": {**schema["properties"], "spec": {**spec, "properties": kept}},
    }


async def test_the_current_crd_lacks_nothing(api, kube):
    await api.put(CRDS, crd())
    assert await outdated_fields(kube) == ()


async def test_a_crd_that_may_not_be_read_is_not_compared(api, kube):
    assert await outdated_fields(kube) == ()


@pytest.mark.parametrize("behaviour", ["404", "garbage", "hang"])
async def test_pods_whose_metrics_vanish_hold_the_fleet(world, behaviour):
    await loaded(world, replicas=3, usage=0.0, waiting=0)
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.behaviour = behaviour
    await world.start()
    await world.until(lambda: world.condition("MetricsAvailable").get("status") == "False")
    await world.rounds(3)
    assert world.replicas() == 3
    assert world.condition("Ready")["status"] == "False"


async def test_an_engine_that_wants_a_key_is_told_and_its_pod_is_named(world, case):
    world.workloads.sidecar = False
    await loaded(world, replicas=2, usage=0.0, waiting=0, observation="Direct")
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.behaviour = "401"
    await world.start()
    reason = case("009", "expect.json")["reason"]
    await world.until(lambda: world.condition("MetricsAvailable").get("reason") == reason)
    assert "pod chat-001" in world.condition("MetricsAvailable")["message"]
    await world.rounds(3)
    assert world.replicas() == 2


async def test_in_direct_the_secret_opens_the_page(world):
    import base64

    data = {"api-key": base64.b64encode(b"sk-EXAMPLE").decode()}
    body = {"metadata": {"namespace": "demo", "name": "engine-key"}, "data": data}
    await world.api.put(("", "v1", "secrets"), body)
    world.workloads.sidecar = False
    secret = {"authorizationSecretRef": {"name": "engine-key", "key": "api-key"}}
    await loaded(world, observation="Direct", engine=secret)
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.key = "sk-EXAMPLE"
    await world.start()
    await world.until(lambda: world.replicas() > 1)
    await world.until(lambda: world.status()["observation"] == "Direct")
    assert "sk-EXAMPLE" not in str([c.body for c in world.api.writes()])


async def test_probes_and_metrics_are_served(world):
    await loaded(world)
    operator = await world.start(port=0)
    await world.until(lambda: world.replicas() > 1)
    port = operator.server._runner.addresses[0][1]
    async with aiohttp.ClientSession() as session:
        pages = {"healthz": "ok", "readyz": "ok", "metrics": "cacheaware_lease_held 1"}
        for path, text in pages.items():
            async with session.get(f"http://127.0.0.1:{port}/{path}") as response:
                assert response.status == 200
                assert text in await response.text()
        operator.relist.watch_dead = True
        async with session.get(f"http://127.0.0.1:{port}/healthz") as response:
            assert (response.status, await response.text()) == (503, "a watch delivers nothing")
        operator.relist.watch_dead = False
        operator.relist.listed = False
        async with session.get(f"http://127.0.0.1:{port}/readyz") as response:
            assert response.status == 503


async def test_without_credentials_it_does_not_start(world, caplog):
    from cacheaware.controller.app import assemble, run
    from cacheaware.kube import KubeError

    async def none():
        raise KubeError(0, "NoCredentials", "nothing there")

    operator = assemble(world.settings, none)
    assert await run(operator) == 1
    assert "NoCredentials" in caplog.text
