"""Whether another installation runs, by its Lease and our own clock."""

import pytest
from tests.operator.fake_api import Fault

from cacheaware import names
from cacheaware.act.owners import Owners

LEASES = ("coordination.k8s.io", "v1", "leases")


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def owners(kube, clock):
    return Owners(kube, clock=clock)


async def renew(api, holder="other-0"):
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    await api.put(LEASES, {"metadata": {"namespace": "other", "name": names.LEASE}, "spec": spec})


def looks(api):
    return [call for call in api.calls if call.path.endswith(f"/leases/{names.LEASE}")]


async def test_an_installation_whose_lease_is_renewed_is_alive(api, owners, clock):
    for _ in range(30):
        await renew(api)
        assert "changed in the last 60 s" in await owners.alive("other")
        clock.now += 20


@pytest.mark.parametrize("holder", ["other-0", ""], ids=["crashed", "ended in order"])
async def test_one_that_renews_no_more_is_gone_after_a_minute(api, owners, clock, holder):
    await renew(api, holder)
    assert await owners.alive("other")
    clock.now += 59
    assert await owners.alive("other")
    clock.now += 1
    assert await owners.alive("other") is None


async def test_one_without_a_lease_is_gone_after_a_minute(owners, clock):
    assert await owners.alive("other") == "no Lease"
    clock.now += 60
    assert await owners.alive("other") is None


async def test_one_that_comes_back_is_alive_again(api, owners, clock):
    await owners.alive("other")
    clock.now += 60
    assert await owners.alive("other") is None
    await renew(api)
    clock.now += 5
    assert await owners.alive("other")


async def test_what_cannot_be_read_is_not_gone(api, owners, clock):
    await renew(api)
    api.faults.append(Fault(lambda _, path: "leases" in path, 403, "Forbidden"))
    for _ in range(4):
        assert "403" in await owners.alive("other")
        clock.now += 60


async def test_an_unchanged_lease_stays_unchanged_over_a_failed_look(api, owners, clock):
    await renew(api)
    assert await owners.alive("other")
    api.faults.append(Fault(lambda _, path: "leases" in path, 403, "Forbidden", times=1))
    clock.now += 30
    assert "403" in await owners.alive("other")
    clock.now += 30
    owners._kube._gate.passed(f"GET {looks(api)[0].path}")
    assert await owners.alive("other") is None


async def test_the_lease_is_read_every_few_seconds_for_all_scalers_together(api, owners, clock):
    for _ in range(10):
        await owners.alive("other")
        clock.now += 1
    assert len(looks(api)) == 2


@pytest.mark.parametrize("name", ["../../secrets/x", "Team A", "", "a" * 64])
async def test_what_is_no_namespace_is_never_asked_for_and_never_gone(api, owners, clock, name):
    for _ in range(2):
        assert await owners.alive(name) == "that is no namespace's name"
        clock.now += 100
    assert api.calls == []
