"""Events on a CacheAwareScaler."""

from tests.operator.fake_api import Fault

from cacheaware.act.events import NORMAL, WARNING, Events, Subject

EVENTS = ("", "v1", "events")
ONE = Subject("demo", "chat", "uid-1")
TWO = Subject("demo", "chat", "uid-2")


def found(api):
    return [(body["reason"], body["count"], body["message"]) for body in api.all(EVENTS)]


async def test_a_repeated_reason_raises_the_count(api, kube):
    events = Events(kube, "op-0")
    await events.send(ONE, WARNING, "StartOverdue", "first")
    await events.send(ONE, WARNING, "StartOverdue", "second")
    assert found(api) == [("StartOverdue", 2, "second")]


async def test_reasons_and_objects_are_kept_apart(api, kube):
    events = Events(kube, "op-0")
    for subject, reason in ((ONE, "ScaledUp"), (ONE, "ScaledDown"), (TWO, "ScaledUp")):
        await events.send(subject, NORMAL, reason, "x")
    assert len(found(api)) == 3
    body = api.all(EVENTS)[0]
    assert body["involvedObject"]["kind"] == "CacheAwareScaler"
    assert (body["source"], body["reportingInstance"]) == ({"component": "cacheaware"}, "op-0")


async def test_after_an_hour_it_is_a_new_event(api, kube):
    now = [0.0]
    events = Events(kube, "op-0", clock=lambda: now[0])
    await events.send(ONE, NORMAL, "ScaledUp", "x")
    now[0] = 4000.0
    await events.send(ONE, NORMAL, "ScaledUp", "y")
    assert len(found(api)) == 2


async def test_an_event_that_the_api_has_forgotten_is_sent_anew(api, kube):
    events = Events(kube, "op-0")
    await events.send(ONE, NORMAL, "ScaledUp", "x")
    (name,) = [body["metadata"]["name"] for body in api.all(EVENTS)]
    await api.delete(EVENTS, "demo", name)
    await events.send(ONE, NORMAL, "ScaledUp", "lost")
    await events.send(ONE, NORMAL, "ScaledUp", "again")
    assert [message for _, _, message in found(api)] == ["again"]


async def test_a_failure_is_logged_and_costs_nothing(api, kube, caplog):
    api.faults.append(Fault(lambda *_: True, status=403))
    await Events(kube, "op-0").send(ONE, NORMAL, "ScaledUp", "x")
    assert "event ScaledUp of demo/chat" in caplog.text


async def test_a_scaler_that_is_gone_is_forgotten(api, kube):
    events = Events(kube, "op-0")
    await events.send(ONE, NORMAL, "ScaledUp", "x")
    events.forget(ONE.uid)
    await events.send(ONE, NORMAL, "ScaledUp", "x")
    assert [count for _, count, _ in found(api)] == [1, 1]


async def test_long_messages_are_cut(api, kube):
    events = Events(kube, "op-0")
    await events.send(ONE, NORMAL, "ScaledUp", "x" * 5000)
    await events.send(ONE, NORMAL, "ScaledDown", "x")
    await events.send(ONE, NORMAL, "ScaledDown", "y" * 5000)
    assert [len(message) for _, _, message in found(api)] == [1024, 1024]
