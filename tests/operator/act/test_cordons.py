"""Carrying out cordons: what comes first, what is renewed, what is remembered."""

import pytest
from msgspec.structs import replace

from cacheaware.act.cordons import (
    REFUSED_SECONDS,
    RENEW_SECONDS,
    SURE_SECONDS,
    CordonMemory,
    Cordons,
)
from cacheaware.act.outcome import Outcome
from cacheaware.decide.decision import Decision, Victim
from cacheaware.pods import PodRecord

RECORDS = {uid: PodRecord(namespace="demo", name=f"pod-{uid}", uid=uid, labels={}) for uid in "abc"}


class Sidecars:
    """Answers calls as told, and writes them down."""

    def __init__(self):
        self.calls = []
        self.answers = {}

    async def cordon(self, record, by):
        self.calls.append(("cordon", record.uid, by))
        return self.answers.get(record.uid, Outcome(200))

    async def uncordon(self, record, by):
        self.calls.append(("uncordon", record.uid, by))
        return self.answers.get(record.uid, Outcome(200))


@pytest.fixture
def sidecars():
    return Sidecars()


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def carry(sidecars, clock):
    cordons, memory = Cordons(sidecars, clock=lambda: clock[0]), CordonMemory()

    async def carry_out(out="", back="", empty=""):
        decision = Decision(
            desired=3, current=3, reason="Draining", message="", cordons=victims(out),
            uncordons=victims(back),
            victims=tuple(replace(one, cordoned=True) for one in victims(empty)),
        )  # fmt: skip
        return await cordons.carry_out(decision, RECORDS, "cas", memory)

    carry_out.memory = memory
    return carry_out


def victims(uids):
    return tuple(Victim(pod=f"pod-{uid}", uid=uid, reason=f"because {uid}") for uid in uids)


async def test_pods_come_back_before_others_go(carry, sidecars):
    moved = await carry(out="ab", back="c")
    assert sidecars.calls == [
        ("uncordon", "c", "cas"),
        ("cordon", "a", "cas"),
        ("cordon", "b", "cas"),
    ]
    assert moved.cordoned == ("pod-a", "pod-b")
    assert moved.uncordoned == (("pod-c", "because c"),)


async def test_a_cordon_is_renewed_after_a_third_of_its_lease_and_told_once(carry, sidecars, clock):
    await carry(out="a")
    clock[0] += RENEW_SECONDS - 1
    await carry(out="a")
    assert len(sidecars.calls) == 1
    clock[0] += 1
    moved = await carry(out="a")
    assert len(sidecars.calls) == 2
    assert moved.cordoned == ()


async def test_a_renewal_that_fails_is_tried_again_in_the_next_round(carry, sidecars, clock):
    await carry(out="a")
    clock[0] += RENEW_SECONDS
    sidecars.answers["a"] = Outcome(0, "gone")
    await carry(out="a")
    clock[0] += 5
    del sidecars.answers["a"]
    await carry(out="a")
    assert len(sidecars.calls) == 3
    clock[0] += 5
    await carry(out="a")
    assert len(sidecars.calls) == 3


async def test_one_that_is_empty_is_kept_out_until_its_end_is_written(carry, sidecars, clock):
    await carry(out="a")
    for _ in range(10):
        clock[0] += RENEW_SECONDS
        await carry(empty="a")
    assert len(sidecars.calls) == 11
    assert carry.memory.surely_last("a", clock[0])


async def test_one_that_may_serve_again_at_any_moment_is_not_surely_out(carry, sidecars, clock):
    await carry(out="a")
    sidecars.answers["a"] = Outcome(0, "gone")
    clock[0] += SURE_SECONDS - 1
    await carry(empty="a")
    assert carry.memory.surely_last("a", clock[0])
    clock[0] += 1
    await carry(empty="a")
    assert not carry.memory.surely_last("a", clock[0])
    assert not carry.memory.surely_last("b", clock[0]), "never cordoned by this run"


async def test_a_refusal_is_an_obstacle_for_a_minute_and_told_once(carry, sidecars, clock):
    sidecars.answers["a"] = Outcome(403, "not by you")
    assert (await carry(out="a")).refused == (("pod-a", "not by you"),)
    assert (await carry(out="a")).refused == ()
    assert carry.memory.obstacles(clock[0]) == {"a": "not by you"}
    clock[0] += REFUSED_SECONDS
    assert carry.memory.obstacles(clock[0]) == {}
    assert (await carry(out="a")).refused


async def test_how_long_a_drain_lasted_is_known_from_its_first_cordon(carry, clock):
    await carry(out="ab")
    clock[0] += RENEW_SECONDS
    await carry(out="ab")
    moved = await carry(back="a")
    assert moved.lasted == (RENEW_SECONDS,)
    assert carry.memory.ended("bc", clock[0] + 1) == (RENEW_SECONDS + 1,)
    assert carry.memory.ended("b", clock[0]) == ()


async def test_a_pod_that_does_not_come_back_is_not_told_as_if(carry, sidecars):
    await carry(out="a")
    sidecars.answers["a"] = Outcome(0, "gone")
    moved = await carry(back="a")
    assert (moved.uncordoned, moved.lasted) == ((), ())


async def test_pods_that_are_gone_are_neither_called_nor_remembered(carry, sidecars):
    await carry(out="ab")
    carry.memory.keep({"a"})
    assert set(carry.memory.renewed) == set(carry.memory.begun) == {"a"}
    del RECORDS["b"]
    try:
        await carry(back="b")
    finally:
        RECORDS["b"] = PodRecord(namespace="demo", name="pod-b", uid="b", labels={})
    assert ("uncordon", "b", "cas") not in sidecars.calls
