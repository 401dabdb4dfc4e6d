"""Two installations never both act: who claims a scaler, and when it is taken over."""

import asyncio
import contextlib
from dataclasses import replace

import pytest
from tests.operator.conftest import SCALERS, loader
from tests.operator.fake_api import Fault

from cacheaware import names
from cacheaware.controller.app import assemble, run

LEASES = ("coordination.k8s.io", "v1", "leases")


def owner(world):
    meta = world.api.get(SCALERS, "demo", "chat")["metadata"]
    return (meta.get("annotations") or {}).get(names.OWNER)


def claims(world):
    """The writes of owner annotations."""
    return [
        call.body["metadata"]["annotations"][names.OWNER]
        for call in world.api.calls
        if is_claim(call)
    ]


def is_claim(call):
    return call.method == "PATCH" and call.path.endswith(f"/{names.PLURAL}/chat")


async def loaded(world, **spec):
    await world.workloads.deployment("demo", "chat", 1)
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.usage, pod.waiting = 0.99, 20
    await world.scaler(**spec)


@contextlib.asynccontextmanager
async def second(world, **settings):
    """Another operator in the same cluster."""
    changed = replace(world.settings, pod_name="second-0", **settings)
    operator = assemble(changed, loader(world.api))
    task = asyncio.create_task(run(operator))
    try:
        yield operator
    finally:
        operator.stop.set()
        await task


def lease(holder="other-0"):
    meta = {"namespace": "other", "name": names.LEASE}
    return {"metadata": meta, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}}


async def test_a_scaler_in_scale_is_claimed_before_its_replicas_are_written(world):
    await loaded(world)
    await world.start()
    await world.until(lambda: world.replicas() > 1)
    assert owner(world) == "ops"
    writes = [call for call in world.api.calls if call.method == "PATCH"]
    kinds = ["claim" if is_claim(call) else call.path for call in writes]
    assert kinds.index("claim") < next(i for i, one in enumerate(kinds) if one.endswith("/scale"))
    await world.rounds(3)
    assert claims(world) == ["ops"]


async def test_in_advise_nothing_is_claimed(world):
    await loaded(world, mode="Advise")
    await world.start()
    await world.rounds(3)
    assert owner(world) is None
    assert world.condition("Ready")["status"] == "True"


async def test_of_two_installations_that_start_at_once_one_serves_the_scaler(world):
    await loaded(world)
    await world.api.put(("", "v1", "namespaces"), {"metadata": {"name": "other"}})
    async with second(world, lease_namespace="other"):
        await world.start()
        await world.until(lambda: world.replicas() > 1)
        await world.rounds(5)
        told = await world.until(lambda: world.events("TargetConflict"))
    (loser,) = {"ops", "other"} - {owner(world)}
    assert told[0]["source"]["component"] == names.FIELD_MANAGER
    assert told[0]["reportingInstance"] == {"ops": "op-0", "other": "second-0"}[loser]
    assert f"the installation in {owner(world)}" in told[0]["message"]
    written = [call.body["spec"]["replicas"] for call in world.scale_writes()]
    assert written == sorted(set(written))


async def test_a_living_owner_is_left_alone_and_told_once(world):
    await loaded(world)
    meta = {"metadata": {"annotations": {names.OWNER: "other"}}}
    await world.api.edit(SCALERS, "demo", "chat", meta)
    await world.api.put(LEASES, lease())
    await world.start()
    told = await world.until(lambda: world.condition("Conflicted").get("message"))
    assert "the installation in other" in told
    version = world.api.get(SCALERS, "demo", "chat")["metadata"]["resourceVersion"]
    await world.rounds(5)
    assert world.api.get(SCALERS, "demo", "chat")["metadata"]["resourceVersion"] == version
    assert await world.event("TargetConflict")
    assert len(world.events("TargetConflict")) == 1
    assert (world.replicas(), owner(world), claims(world)) == (1, "other", [])
    assert all(not pod.calls for pod in world.workloads.fakes_of("demo", "chat"))


async def test_cordons_and_costs_of_a_living_owner_are_not_taken_back(world):
    await loaded(world)
    uid = world.api.get(SCALERS, "demo", "chat")["metadata"]["uid"]
    (pod,) = world.workloads.fakes_of("demo", "chat")
    pod.phase, pod.cordoned_by = "cordoned", uid
    name = world.workloads.pods_of("demo", "chat")[0]["metadata"]["name"]
    marks = {names.DELETION_COST: "-1", names.DELETION_COST_OWNER: f'{{"by":"{uid}"}}'}
    pods = ("", "v1", "pods")
    await world.api.edit(pods, "demo", name, {"metadata": {"annotations": marks}})
    meta = {"metadata": {"annotations": {names.OWNER: "other"}}}
    await world.api.edit(SCALERS, "demo", "chat", meta)
    await world.api.put(LEASES, lease())
    await world.start(pod_namespace="ops", service_account="op")
    await world.until(lambda: world.condition("Conflicted").get("status") == "True")
    await world.rounds(3)
    assert pod.calls == []
    assert world.api.get(pods, "demo", name)["metadata"]["annotations"] == marks


async def test_an_owner_that_is_gone_is_followed(world, monkeypatch):
    monkeypatch.setattr("cacheaware.act.owners.DEAD_SECONDS", 0.6)
    monkeypatch.setattr("cacheaware.act.owners.ASKED_SECONDS", 0.1)
    await loaded(world)
    meta = {"metadata": {"annotations": {names.OWNER: "other"}}}
    await world.api.edit(SCALERS, "demo", "chat", meta)
    await world.start()
    await world.until(lambda: world.condition("Conflicted").get("status") == "True")
    assert world.replicas() == 1
    await world.until(lambda: world.replicas() > 1)
    assert owner(world) == "ops"
    await world.until(lambda: world.condition("Conflicted").get("status") == "False")


async def test_an_owner_that_takes_over_while_we_slept_is_seen_before_we_write(world):
    """Its Lease was ours no more; the watch has not told us of the other's claim."""
    await loaded(world)
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.usage, pod.waiting = 0.1, 0
    operator = await world.start()
    await world.until(lambda: owner(world) == "ops")
    await world.rounds(2)
    await world.api.put(LEASES, lease())
    scaler = world.api.get(SCALERS, "demo", "chat")
    scaler["metadata"]["annotations"][names.OWNER] = "other"  # no watch event
    operator.lease.tenure += 1
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.usage, pod.waiting = 0.99, 20
    await world.rounds(3)
    assert world.replicas() == 1
    assert world.scale_writes() == []
    await world.until(lambda: world.condition("Conflicted").get("status") == "True")


async def test_a_claim_that_is_refused_is_told_and_nothing_is_written(world):
    plain = f"/{names.PLURAL}/chat"
    world.api.faults.append(
        Fault(lambda method, path: method == "PATCH" and path.endswith(plain), 403, "Forbidden")
    )
    await loaded(world)
    await world.start()
    told = await world.until(
        lambda: (c := world.condition("AbleToScale")).get("status") == "False" and c["message"]
    )
    assert told.startswith("the scaler could not be claimed: 403 Forbidden")
    await world.rounds(2)
    assert world.scale_writes() == []


@pytest.mark.parametrize("times", [1, 2])
async def test_a_write_that_comes_between_is_no_obstacle(world, times):
    plain = f"/{names.PLURAL}/chat"
    world.api.faults.append(
        Fault(
            lambda method, path: method == "PATCH" and path.endswith(plain),
            409,
            "Conflict",
            times=times,
        )
    )
    await loaded(world)
    await world.start()
    await world.until(lambda: world.replicas() > 1)
    assert owner(world) == "ops"
    assert not world.events("WriteFailed")


async def test_an_annotation_that_a_human_takes_away_is_written_again(world):
    await loaded(world)
    await world.start()
    await world.until(lambda: owner(world) == "ops")
    await world.api.edit(
        SCALERS, "demo", "chat", {"metadata": {"annotations": {names.OWNER: None}}}
    )
    await world.until(lambda: owner(world) == "ops")
