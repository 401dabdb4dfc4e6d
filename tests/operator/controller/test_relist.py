"""The belt to kopf's watches."""

import pytest
from tests.operator.conftest import scaler_body
from tests.operator.fake_api import KEDA, Fault

from cacheaware import names
from cacheaware.controller.registry import Registry, scaler_record
from cacheaware.controller.relist import Relist

SCALERS = (names.GROUP, names.VERSION, names.PLURAL)
HPAS = ("autoscaling", "v2", "horizontalpodautoscalers")


def hpa(name="chat", ns="demo"):
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    return {"metadata": {"namespace": ns, "name": name}, "spec": {"scaleTargetRef": ref}}


@pytest.fixture
def found():
    return Registry()


@pytest.fixture
def relist(kube, found):
    return Relist(kube, found, ())


async def test_it_finds_all_three_kinds(api, relist, found):
    api.kinds[KEDA] = ("ScaledObject", True, ())
    await api.put(SCALERS, scaler_body())
    await api.put(HPAS, hpa())
    await api.put(KEDA, hpa("so"))
    await relist.once()
    assert [str(one) for one in found.scalers.values()] == ["demo/chat"]
    claimed = sorted(str(one) for one in found.foreign.values())
    assert claimed == ["HorizontalPodAutoscaler chat", "ScaledObject so"]


async def test_a_change_that_the_watch_missed_takes_effect(api, relist, found, case):
    before = await api.put(SCALERS, scaler_body(maxReplicas=4))
    found.deliver(scaler_record(before))
    change = case("089", "input.timeline.json")[2]["change"]
    assert "max 4 -> 8" in change
    await api.put(SCALERS, scaler_body(maxReplicas=8))
    await relist.once()
    (one,) = found.scalers.values()
    assert one.policy.max_replicas == 8
    assert not relist.watch_dead
    await relist.once()
    assert relist.watch_dead


async def test_a_dead_watch_is_seen_though_the_object_changes_all_the_time(api, relist, found):
    found.deliver(scaler_record(await api.put(SCALERS, scaler_body())))
    for replicas in (5, 6):
        await api.put(SCALERS, scaler_body(maxReplicas=replicas))
        await relist.once()
    assert relist.watch_dead


async def test_a_watch_that_delivers_late_is_alive(api, relist, found):
    found.deliver(scaler_record(await api.put(SCALERS, scaler_body())))
    newer = await api.put(SCALERS, scaler_body(maxReplicas=8))
    await relist.once()
    found.deliver(scaler_record(newer))
    await relist.once()
    assert not relist.watch_dead


async def test_what_is_gone_is_dropped_and_only_of_the_listed_kind(api, relist, found):
    await api.put(SCALERS, scaler_body())
    await api.put(HPAS, hpa())
    await relist.once()
    await api.delete(SCALERS, "demo", "chat")
    await relist.once()
    assert not found.scalers
    assert len(found.foreign) == 1


async def test_a_kind_that_cannot_be_listed_keeps_what_is_known(api, relist, found, caplog):
    await api.put(HPAS, hpa())
    await relist.once()
    forbidden = Fault(lambda _, path: "horizontal" in path, status=403, reason="Forbidden")
    api.faults.append(forbidden)
    await relist.once()
    assert len(found.foreign) == 1
    assert "horizontalpodautoscalers could not be listed" in caplog.text
    assert "scaledobjects" not in caplog.text


async def test_only_the_given_namespaces_are_listed(api, kube, found):
    await api.put(SCALERS, scaler_body())
    await api.put(SCALERS, scaler_body(ns="prod"))
    await Relist(kube, found, ("prod",)).once()
    assert [str(one) for one in found.scalers.values()] == ["prod/chat"]
    assert all("/namespaces/prod/" in call.path for call in api.calls)


async def test_a_scaler_under_deletion_is_gone(api, relist, found):
    going = scaler_body()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    await api.put(SCALERS, going)
    await relist.once()
    assert not found.scalers
