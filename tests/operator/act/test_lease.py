"""The Lease that says who may write."""

import asyncio

import pytest
from tests.operator.fake_api import Fault

from cacheaware import names
from cacheaware.act.lease import DEADLINE_SECONDS, Lease, LeaseLostError

LEASES = ("coordination.k8s.io", "v1", "leases")


@pytest.fixture
def clock():
    return [0.0]


def lease(kube, clock, identity="a"):
    return Lease(kube, "ops", identity, clock=lambda: clock[0])


def spec(api):
    return api.get(LEASES, "ops", names.LEASE)["spec"]


async def test_it_is_created_renewed_and_released(api, kube, clock):
    one = lease(kube, clock)
    assert not one.held()
    assert await one.try_once()
    assert one.held()
    first = spec(api)
    assert (first["holderIdentity"], first["leaseTransitions"]) == ("a", 1)
    clock[0] = 3.0
    assert await one.try_once()
    assert spec(api)["acquireTime"] == first["acquireTime"]
    assert spec(api)["leaseTransitions"] == 1
    await one.release()
    assert not one.held()
    assert spec(api)["holderIdentity"] == ""


async def test_a_held_lease_is_not_taken_until_it_expires_by_our_own_clock(api, kube, clock):
    assert await lease(kube, clock, "a").try_once()
    other = lease(kube, clock, "b")
    assert not await other.try_once()
    clock[0] = 14.0
    assert not await other.try_once()
    clock[0] = 16.0
    assert await other.try_once()
    assert (spec(api)["holderIdentity"], spec(api)["leaseTransitions"]) == ("b", 2)


async def test_a_renewed_lease_never_expires(api, kube, clock):
    one, other = lease(kube, clock, "a"), lease(kube, clock, "b")
    for _ in range(10):
        assert await one.try_once()
        assert not await other.try_once()
        clock[0] += 10.0


async def test_a_released_lease_is_free_at_once(api, kube, clock):
    one = lease(kube, clock, "a")
    await one.try_once()
    await one.release()
    assert await lease(kube, clock, "b").try_once()


async def test_without_renewal_writing_stops_well_before_another_may_start(api, kube, clock):
    one = lease(kube, clock)
    await one.try_once()
    api.faults.append(Fault(lambda *_: True, status=503))
    clock[0] = 5.0
    assert not await one.try_once()
    assert one.held()
    clock[0] = DEADLINE_SECONDS
    assert not one.held()


async def test_a_lease_that_another_took_ends_us(api, kube, clock):
    one = lease(kube, clock)
    await one.try_once()
    await api.edit(LEASES, "ops", names.LEASE, {"spec": {"holderIdentity": "b"}})
    with pytest.raises(LeaseLostError, match="b took the Lease"):
        await one.try_once()
    assert not one.held()


async def test_of_two_that_write_at_once_one_wins(api, kube, clock):
    await api.put(LEASES, {"metadata": {"namespace": "ops", "name": names.LEASE}, "spec": {}})
    both = [lease(kube, clock, name) for name in "ab"]
    assert sorted(await asyncio.gather(*(one.try_once() for one in both))) == [False, True]


async def test_of_two_that_create_at_once_one_wins(api, kube, clock):
    both = [lease(kube, clock, name) for name in "ab"]
    assert sorted(await asyncio.gather(*(one.try_once() for one in both))) == [False, True]


async def test_a_call_that_hangs_is_a_failed_attempt(api, kube, clock, monkeypatch):
    monkeypatch.setattr("cacheaware.act.lease.DEADLINE_SECONDS", 0.2)
    api.faults.append(Fault(lambda *_: True, hang=True))
    assert not await lease(kube, clock).try_once()


async def test_a_refused_write_is_told(api, kube, clock, caplog):
    api.faults.append(Fault(lambda method, _: method == "POST", status=403, reason="Forbidden"))
    assert not await lease(kube, clock).try_once()
    assert "Lease: 403 Forbidden" in caplog.text


async def test_it_runs_until_it_can_no_longer_renew(api, kube, clock, monkeypatch):
    monkeypatch.setattr("cacheaware.act.lease.RENEW_SECONDS", 0.01)
    monkeypatch.setattr("cacheaware.backoff.FIRST_SECONDS", 0.01)
    one = lease(kube, clock)
    api.faults.append(Fault(lambda *_: True, status=503, times=1))
    task = asyncio.create_task(one.run())
    async with asyncio.timeout(5):
        while not one.held():  # noqa: ASYNC110 - a fake world
            await asyncio.sleep(0.01)
    api.faults.append(Fault(lambda *_: True, status=503))
    await asyncio.sleep(0.1)
    assert not task.done()
    clock[0] = DEADLINE_SECONDS + 1
    with pytest.raises(LeaseLostError):
        async with asyncio.timeout(5):
            await task


async def test_a_release_that_fails_is_told(api, kube, clock, caplog):
    one = lease(kube, clock)
    await one.release()
    await one.try_once()
    api.faults.append(Fault(lambda *_: True, status=503))
    await one.release()
    assert "not released" in caplog.text
