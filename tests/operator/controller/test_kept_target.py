"""A target is not read in each round, and yet nothing is done on what was read before."""

import pytest
from msgspec.structs import replace
from tests.operator.controller.test_operator import loaded
from tests.operator.fake_pods import DEPLOYMENTS

from cacheaware.controller.kept_target import Kept, acts
from cacheaware.decide.decision import Decision, Victim
from cacheaware.decide.prefill_speed import Prefilled
from cacheaware.observe.selector import parse_selector
from cacheaware.observe.target import Target, TargetRef
from cacheaware.pods import PodRecord

REF = TargetRef("demo", "apps/v1", "Deployment", "chat")
TARGET = Target(
    ref=REF, path="/x", spec_replicas=2, selector=parse_selector("app=chat"), resource_version="7"
)
POD = PodRecord(namespace="demo", name="p", uid="u", labels={})
STEADY = Decision(desired=2, current=2, reason="Steady", message="")
VICTIM = Victim(pod="p", uid="u", reason="idle")


def test_what_was_read_holds_for_twelve_rounds():
    kept = Kept(TARGET, 100.0, [POD])
    assert kept.holds([POD], 159.9, 5.0)
    assert not kept.holds([POD], 160.0, 5.0)


@pytest.mark.parametrize("now", [[], [POD, POD], [replace(POD)]], ids=["gone", "more", "changed"])
def test_what_was_read_holds_no_longer_than_its_pods_stay_as_they_were(now):
    assert not Kept(TARGET, 100.0, [POD]).holds(now, 101.0, 5.0)


@pytest.mark.parametrize("more", [{"spec_replicas": 0}, {"rollout": True}, {"problem": "unread"}])
def test_a_target_in_which_something_is_waited_for_is_read_each_round(more):
    assert not Kept(replace(TARGET, **more), 100.0, [POD]).holds([POD], 101.0, 5.0)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, False),
        ({"desired": 3}, True),
        ({"cordons": (VICTIM,)}, True),
        ({"uncordons": (VICTIM,)}, True),
        ({"victims": (VICTIM,)}, True),
    ],
    ids=str,
)
def test_a_decision_acts_when_it_asks_for_anything(more, expected):
    assert acts(replace(STEADY, **more)) is expected


async def test_a_steady_target_is_read_now_and_then_and_a_change_of_its_replicas_is_seen(world):
    await loaded(world, replicas=2, usage=0.6, waiting=0)
    await world.start()
    await world.until(lambda: world.status().get("decisions"))
    before = reads(world)
    await world.rounds(16)
    assert 1 <= reads(world) - before <= 4
    await world.api.edit(DEPLOYMENTS, "demo", "chat", {"spec": {"replicas": 3}})
    await world.until(lambda: world.status()["currentReplicas"] == 3)


async def test_before_it_writes_it_reads(world):
    await loaded(world, replicas=1, usage=0.6, waiting=0)
    await world.start()
    await world.until(lambda: world.status().get("decisions"))
    await world.rounds(1)
    before = reads(world)
    for fake in world.workloads.fakes_of("demo", "chat"):
        fake.usage, fake.waiting = 0.99, 20
    await world.until(lambda: world.replicas() > 1)
    assert reads(world) > before


async def test_a_round_that_reads_anew_before_it_acts_learns_from_its_look_once(world):
    await loaded(world, replicas=1, usage=0.6, waiting=0)
    (fake,) = world.workloads.fakes_of("demo", "chat")
    ended = {"requests": 0.0, "prefill_seconds": 0.0, "prefilled_tokens": 0.0}
    fake.extra = {"counters": ended}
    operator = await world.start()
    await world.until(lambda: world.status().get("decisions"))
    await world.rounds(3)
    (state,) = operator.rounds._states.values()
    state.kept = replace(state.kept, at=operator.round.clock())
    before = reads(world)
    fake.extra = {
        "counters": {"requests": 10.0, "prefill_seconds": 5.0, "prefilled_tokens": 9000.0}
    }
    fake.usage, fake.waiting = 0.99, 20
    await world.until(lambda: world.replicas() > 1)

    assert reads(world) > before
    assert state.learned.prefilled == Prefilled(seconds=5.0, tokens=9000.0, requests=10.0)


def reads(world):
    """How often the target was read so far."""
    scales = [one for one in world.api.calls if one.path.endswith("/chat/scale")]
    return sum(one.method == "GET" for one in scales)
