"""The status: every field stored, written only when somebody would care."""

import dataclasses

import pytest
from msgspec.structs import replace
from tests.operator.conftest import scaler_body

from cacheaware import names
from cacheaware.act.conditions import Situation, conditions
from cacheaware.act.events import Subject
from cacheaware.act.status import (
    CHANGED_SECONDS,
    REFRESH_SECONDS,
    SETTLE_SECONDS,
    StatusMemory,
    StatusWriter,
    dropped,
    with_decision,
)
from cacheaware.api.models import CacheAwareScaler
from cacheaware.decide.cold_start import ColdStart
from cacheaware.decide.decision import Decision, Term, Victim
from cacheaware.decide.fleet import FleetView, PodLoad, PodView
from cacheaware.decide.learned import Learned
from cacheaware.decide.learned_work import Decode, Sizes, Work
from cacheaware.kube import KubeError

SCALERS = (names.GROUP, names.VERSION, names.PLURAL)
FLEET = FleetView(
    namespace="demo",
    name="chat",
    spec_replicas=2,
    pods=(PodView(name="a", load=PodLoad(running=1, waiting=0, usage=0.5)),),
)
TERM = Term(signal="kv-tokens", demand=3.0, per_replica=2.0, unit="tokens", replicas=2)
DECISION = Decision(
    desired=2, current=3, reason="ScaledDown", message="m", terms=(TERM,), raw=2, serving=2,
    limited_by=("rate",), victims=(Victim(pod="a", uid="u", reason="idle"),),
)  # fmt: skip
FOUND = Situation(mode="Scale", fleet=FLEET, decision=DECISION)


@pytest.fixture
async def subject(api):
    body = await api.put(SCALERS, scaler_body())
    return Subject("demo", "chat", body["metadata"]["uid"])


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def writer(kube, clock):
    return StatusWriter(kube, clock=lambda: clock[0])


async def write(writer, subject, generation, found, memory):
    return await writer.write(subject, generation, found, conditions(found), memory)


def writes(api):
    return len(api.writes())


async def test_what_is_written_is_what_the_models_declare_and_comes_back_equal(
    api, writer, subject, case
):
    memory = StatusMemory(last_scale_time="2026-01-01T00:00:00Z")
    assert await write(writer, subject, 4, FOUND, memory) == ()
    stored = api.get(SCALERS, "demo", "chat")["status"]
    model = CacheAwareScaler.model_validate({**scaler_body(), "status": stored}).status
    again = model.model_dump(by_alias=True, exclude_none=True)
    assert (again == stored) is case("093", "expect.json")["roundtrip_equal"]
    assert stored["observedGeneration"] == 4
    assert stored["decisions"][0]["terms"][0]["signal"] == "kv-tokens"


async def test_fields_that_the_crd_drops_are_reported(api, writer, subject, clock):
    def prune(_, body):
        status = body["status"]
        keep = {
            "conditions": [{"type": c["type"], "status": c["status"]} for c in status["conditions"]]
        }
        return {**body, "status": {"currentReplicas": status["currentReplicas"], **keep}}

    api.store = prune
    gone = await write(writer, subject, 1, FOUND, StatusMemory())
    assert {"status.desiredReplicas", "status.decisions", "status.conditions[].reason"} <= set(gone)
    assert "status.currentReplicas" not in gone


async def test_no_change_is_no_write(api, writer, subject, clock):
    memory, one = StatusMemory(), writer
    await write(one, subject, 1, FOUND, memory)
    before = writes(api)
    clock[0] = 60.0
    await write(one, subject, 1, FOUND, memory)
    assert writes(api) == before


@pytest.mark.parametrize(
    ("change", "after", "written"),
    [
        ({"desired": 4}, 1.0, True),
        ({"current": 4}, 1.0, True),
        ({"reason": "Steady"}, 1.0, False),
        ({"reason": "Steady"}, SETTLE_SECONDS, True),
        ({"starting": 1}, SETTLE_SECONDS, True),
        ({"message": "other"}, SETTLE_SECONDS, False),
        ({"message": "other"}, REFRESH_SECONDS, True),
        ({"terms": (replace(TERM, demand=3.4),)}, CHANGED_SECONDS, False),
        ({"terms": (replace(TERM, demand=3.5),)}, SETTLE_SECONDS, False),
        ({"terms": (replace(TERM, demand=3.5),)}, CHANGED_SECONDS, True),
        ({"terms": ()}, CHANGED_SECONDS, True),
    ],
)
async def test_it_is_written_when_a_person_would_care(  # noqa: PLR0917 - a table
    api, writer, subject, clock, change, after, written
):
    memory, one = StatusMemory(), writer
    await write(one, subject, 1, FOUND, memory)
    before, clock[0] = writes(api), after
    changed = replace(FOUND, decision=replace(DECISION, **change))
    await write(one, subject, 1, changed, memory)
    assert (writes(api) > before) is written


async def test_another_sick_cache_or_another_trouble_is_told_within_a_quarter_minute(
    api, writer, subject, clock
):
    memory, told = StatusMemory(), []
    for second, sick in ((0.0, ("kv-full",)), (SETTLE_SECONDS, ("kv-full", "relief"))):
        clock[0] = second
        pods = (replace(FLEET.pods[0], findings=sick),)
        await write(writer, subject, 1, replace(FOUND, fleet=replace(FLEET, pods=pods)), memory)
        last = api.get(SCALERS, "demo", "chat")["status"]["conditions"]
        told += [one["message"] for one in last if one["type"] == "CacheUnhealthy"]
    assert [one.partition(".")[0] for one in told] == ["a: kv-full", "a: kv-full, relief"]


async def test_what_flips_is_written_each_quarter_minute(api, writer, subject, clock):
    memory, times, seen = StatusMemory(), [], 0
    for second in range(0, 60, 5):
        clock[0] = float(second)
        conflict = "HPA x" if second % 10 else None
        await write(writer, subject, 1, replace(FOUND, conflict=conflict), memory)
        if writes(api) > seen:
            times, seen = [*times, second], writes(api)
    assert times == [0, 5, 20, 35, 50]
    last = api.get(SCALERS, "demo", "chat")["status"]["conditions"]
    assert next(one["status"] for one in last if one["type"] == "Conflicted") == "False"


async def test_a_namesake_created_in_between_is_not_written(api, writer, subject, clock):
    memory = StatusMemory()
    await write(writer, subject, 1, FOUND, memory)
    await api.delete(SCALERS, "demo", "chat")
    await api.put(SCALERS, scaler_body())
    with pytest.raises(KubeError, match="409"):
        await write(writer, subject, 2, FOUND, memory)
    assert "status" not in api.get(SCALERS, "demo", "chat")


async def test_a_new_generation_and_a_condition_are_written_at_once(api, writer, subject, clock):
    memory, one = StatusMemory(), writer
    await write(one, subject, 1, FOUND, memory)
    await write(one, subject, 2, FOUND, memory)
    await write(one, subject, 2, replace(FOUND, conflict="HPA x"), memory)
    assert writes(api) == 3


async def test_the_next_operator_goes_on_from_there(api, writer, subject, clock):
    await write(writer, subject, 1, FOUND, StatusMemory(last_scale_time="then"))
    first = api.get(SCALERS, "demo", "chat")["status"]
    later = replace(FOUND, decision=replace(DECISION, reason="Steady", desired=3))
    await write(writer, subject, 1, later, StatusMemory())
    second = api.get(SCALERS, "demo", "chat")["status"]
    assert second["lastScaleTime"] == "then"
    assert [one["reason"] for one in second["decisions"]] == ["Steady", "ScaledDown"]
    times = [[c["lastTransitionTime"] for c in s["conditions"]] for s in (first, second)]
    assert times[0] == times[1]


async def test_what_is_no_longer_known_is_cleared(api, writer, subject, clock):
    memory, one = StatusMemory(), writer
    await write(one, subject, 1, FOUND, memory)
    await write(one, subject, 1, Situation(mode="Scale"), memory)
    status = api.get(SCALERS, "demo", "chat")["status"]
    assert "desiredReplicas" not in status
    assert status["decisions"]


async def test_an_object_that_was_created_anew_is_not_touched(api, writer):
    await api.put(SCALERS, scaler_body())
    with pytest.raises(KubeError, match="created anew"):
        await write(writer, Subject("demo", "chat", "old"), 1, FOUND, StatusMemory())
    assert api.writes() == []


def test_a_repeated_decision_takes_the_place_of_the_newest_and_ten_are_kept():
    kept = []
    for _ in range(3):
        kept = with_decision(kept, DECISION, "now")
    assert len(kept) == 1
    for number in range(20):
        kept = with_decision(kept, replace(DECISION, desired=number), "now")
    assert len(kept) == 10
    assert kept[0]["to"] == 19
    assert with_decision(kept, None, "now") == kept


def test_what_was_not_sent_is_not_missed():
    assert dropped({"a": None, "conditions": []}, {}) == ("status.conditions",)


START = ColdStart(schedule=1.0, pull=20.0, load=40.0, warm=8.0)


def having_learned(count, found=FOUND, desired=2):
    learned = Learned(starts=(START,) * count, nodes=("node-1",))
    decision = replace(DECISION, desired=desired)
    return replace(found, fleet=replace(FLEET, learned=learned), decision=decision)


async def test_what_starts_have_taught_is_written_each_ten_minutes_at_most(
    api, writer, subject, clock
):
    memory = StatusMemory()

    def learned():
        return api.get(SCALERS, "demo", "chat")["status"].get("learned", {}).get("starts", [])

    await write(writer, subject, 1, FOUND, memory)
    assert learned() == []
    await write(writer, subject, 1, having_learned(1, desired=4), memory)
    assert len(learned()) == 1
    clock[0] = 599.0
    await write(writer, subject, 1, having_learned(2, desired=5), memory)
    assert len(learned()) == 1
    clock[0] = 1200.0
    await write(writer, subject, 1, having_learned(2, desired=6), memory)
    assert len(learned()) == 2


@pytest.mark.parametrize(
    ("then", "written"), [((102.0, 51.0), 100.0), ((150.0, 50.0), 150.0), ((101.0, 90.0), 101.0)]
)
async def test_sizes_and_speeds_that_hardly_change_are_not_written_anew(
    api, writer, subject, then, written
):
    memory = StatusMemory()
    for desired, (prompt, speed) in enumerate([(100.0, 50.0), then], start=4):
        work = Work(sizes=Sizes(prompt, 10.0, 3), decode=(Decode(4.0, speed, 3),))
        fleet, made = replace(FLEET, learned=Learned(work=work)), replace(DECISION, desired=desired)
        await write(writer, subject, 1, replace(FOUND, fleet=fleet, decision=made), memory)
        memory.learned_at = None

    learned = api.get(SCALERS, "demo", "chat")["status"]["learned"]
    assert learned["promptTokensPerRequest"] == written


async def test_an_operator_goes_on_from_what_the_one_before_it_has_learned(
    api, writer, subject, clock
):
    await write(writer, subject, 1, having_learned(3), StatusMemory())
    memory = StatusMemory()
    await writer.recall(subject, memory)
    assert memory.learned == Learned(starts=(START,) * 3, nodes=("node-1",))
    await writer.recall(subject, memory)
    reads = [call for call in api.calls if call.method == "GET"]
    assert len(reads) == 2


async def test_a_fleet_that_has_no_learned_starts_keeps_what_is_in_the_status(api, writer, subject):
    memory = StatusMemory()
    await write(writer, subject, 1, having_learned(3), memory)
    await write(writer, subject, 2, FOUND, memory)
    assert api.get(SCALERS, "demo", "chat")["status"]["learned"]["starts"]


async def test_that_we_took_the_last_replica_is_stored_read_again_and_cleared(api, writer, subject):
    memory = StatusMemory()
    await writer.sleeping(subject, memory)
    stored = api.get(SCALERS, "demo", "chat")["status"]
    assert stored["scaledToZeroAt"] == memory.scaled_to_zero_at is not None

    after = StatusMemory()
    await writer.recall(subject, after)
    assert after.scaled_to_zero_at == stored["scaledToZeroAt"]
    after.awake()
    await write(writer, subject, 4, FOUND, after)
    assert "scaledToZeroAt" not in api.get(SCALERS, "demo", "chat")["status"]


async def test_where_that_cannot_be_stored_it_is_not_remembered_either(writer, subject):
    memory = StatusMemory()
    with pytest.raises(KubeError):
        await writer.sleeping(dataclasses.replace(subject, uid="another"), memory)
    assert memory.scaled_to_zero_at is None
