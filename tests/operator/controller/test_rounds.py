"""Rounds of many scalers: each spoils only itself; and what a shrink leaves behind."""

import asyncio
import errno
import socket

import pytest
from tests.operator.fake_pods import FakePod

from cacheaware import names
from cacheaware.act.conditions import Fault, Situation, conditions
from cacheaware.act.events import Events, Subject
from cacheaware.act.verify import shrink_of
from cacheaware.controller.report import Reporter, ReportMemory, transitions
from cacheaware.controller.server import listen
from cacheaware.decide.decision import Decision
from cacheaware.decide.fleet import FleetView, PodLoad, PodView
from cacheaware.pods import PodRecord
from cacheaware.telemetry import Metrics

STATEFULSETS = ("apps", "v1", "statefulsets")
QUICK_DOWN = {
    "scaleDown": {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 10, "periodSeconds": 1}],
    }
}


async def two(world):
    world.workloads.make = lambda: FakePod(usage=0.99, waiting=20)
    for name in ("bad", "good"):
        await world.workloads.deployment("demo", name, 1)
        await world.scaler(name=name)


async def test_a_round_that_breaks_spoils_only_itself(world, caplog):
    await two(world)
    operator = await world.start()
    read = operator.round.targets.read

    async def broken(ref):
        return 1 / 0 if ref.name == "bad" else await read(ref)

    operator.round.targets.read = broken
    await world.until(lambda: world.replicas(name="good") > 1)
    await world.rounds(2)
    assert "demo/bad: the round failed" in caplog.text
    sample = operator.metrics.registry.get_sample_value
    labels = {"namespace": "demo", "name": "bad"}
    assert sample("cacheaware_failed_rounds_total", labels) >= 2
    assert world.replicas(name="bad") == 1
    operator.round.targets.read = read
    await world.until(lambda: world.replicas(name="bad") > 1)


async def test_a_round_that_hangs_is_given_up_and_begun_anew(world):
    await two(world)
    operator = await world.start()
    read, hung = operator.round.targets.read, []

    async def hangs_once(ref):
        if ref.name == "bad" and not hung:
            hung.append(True)
            await asyncio.sleep(3600)
        return await read(ref)

    operator.round.targets.read = hangs_once
    await world.until(lambda: world.replicas(name="good") > 1)
    await world.until(lambda: world.replicas(name="bad") > 1)


async def test_a_failing_api_call_is_tried_again_next_round(world, caplog):
    from tests.operator.fake_api import Fault as ApiFault

    await two(world)
    failing = ApiFault(lambda _, path: path.endswith("/bad/scale"), status=500, times=1)
    world.api.faults.append(failing)
    await world.start()
    await world.until(lambda: world.replicas(name="bad") > 1, 15)
    assert "demo/bad: 500 InternalError; tried again next round" in caplog.text


async def test_a_scaler_deleted_in_the_middle_of_its_round_is_dropped(world):
    await two(world)
    operator = await world.start()

    async def hangs(*_):
        await asyncio.sleep(3600)

    operator.round.observer.see = hangs
    await world.until(lambda: len(operator.rounds._running) == 2)
    for name in ("bad", "good"):
        await world.api.delete((names.GROUP, names.VERSION, names.PLURAL), "demo", name)
    await world.until(lambda: not operator.rounds._running)


async def test_a_changed_target_starts_with_windows_of_its_own(world):
    await two(world)
    operator = await world.start()
    await world.until(lambda: world.replicas(name="good") > 1)
    await world.api.delete((names.GROUP, names.VERSION, names.PLURAL), "demo", "good")
    await world.workloads.deployment("demo", "other", 1)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
    await world.scaler(name="bad", scaleTargetRef=target)
    await world.until(lambda: world.replicas(name="other") > 1)
    await world.until(lambda: len(operator.rounds._states) == 1)
    (state,) = operator.rounds._states.values()
    assert state.ref.name == "other"


async def test_a_sleeping_engine_is_no_supply_and_what_requests_teach_is_kept(world):
    rates = {
        "prompt_tokens_per_s": 1800.0,
        "prompt_tokens_per_request": 900.0,
        "generation_tokens_per_request": 100.0,
        "generation_tokens_per_s": 50.0,
    }
    world.workloads.make = lambda: FakePod(usage=0.79, extra={"rates": rates})
    await world.workloads.deployment("demo", "chat", 2)
    asleep, _ = world.workloads.fakes_of("demo", "chat")
    asleep.usage, asleep.running, asleep.extra = 0.0, 0, {"sleeping": True}
    await world.scaler(mode="Advise")
    operator = await world.start()
    told = "1 pod with a sleeping engine: no supply, and the first to go"
    await world.until(
        lambda: told in str(world.status().get("decisions")) and operator.rounds._states, 20
    )

    (state,) = operator.rounds._states.values()
    assert state.learned.work.sizes.prompt == 900.0
    assert state.learned.work.decode[0].tokens_per_s == 50.0


async def test_a_statefulset_shrinks_without_deletion_costs(world):
    world.workloads.make = lambda: FakePod(usage=0.0, waiting=0, running=0)
    labels = {"app": "chat"}
    status = {"replicas": 2, "currentRevision": "a", "updateRevision": "a", "observedGeneration": 9}
    body = {
        "metadata": {"namespace": "demo", "name": "chat"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "serviceName": "chat"},
        "status": status,
    }
    await world.api.put(STATEFULSETS, body)
    for _ in range(2):
        await world.workloads.pod("demo", "chat")
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "chat"}
    await world.scaler(scaleTargetRef=target, behavior=QUICK_DOWN)
    await world.start()
    await world.until(
        lambda: world.api.get(STATEFULSETS, "demo", "chat")["spec"].get("replicas") == 1
    )
    assert not any("/pods/" in call.path for call in world.api.writes())


async def test_in_direct_only_idle_pods_are_given_up(world):
    world.workloads.sidecar = world.workloads.final_drain = False
    await world.workloads.deployment("demo", "chat", 3)
    busy, *_ = world.workloads.fakes_of("demo", "chat")
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.usage = pod.running = 0
    busy.usage, busy.running = 0.05, 1
    await world.scaler(observation="Direct", behavior=QUICK_DOWN)
    await world.start()
    await world.until(lambda: world.replicas() == 1, 15)
    await world.until(lambda: len(world.workloads.removed) == 2)
    (left,) = world.workloads.fakes_of("demo", "chat")
    assert left is busy


async def test_busy_pods_without_a_hook_are_held(world):
    world.workloads.sidecar = world.workloads.final_drain = False
    await world.workloads.deployment("demo", "chat", 3)
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.usage, pod.running = 0.05, 1
    await world.scaler(observation="Direct", behavior=QUICK_DOWN)
    await world.start()
    await world.until(lambda: world.condition("Ready").get("reason") == "DrainUnavailable")
    await world.until(lambda: world.events("DrainUnavailable"))
    assert world.replicas() == 3


async def test_other_pods_that_went_are_told(api, kube):
    metrics = Metrics()
    reporter = Reporter(None, Events(kube, "op"), metrics)
    pods = [PodRecord(namespace="d", name=name, uid=name, labels={}) for name in "abc"]
    shrink = shrink_of(pods, ["a"], 0.0)
    subject = Subject("demo", "chat", "u")
    assert not await reporter.compared(subject, shrink, pods, 1.0)
    assert await reporter.compared(subject, shrink, pods[:2], 1.0)
    (event,) = api.all(("", "v1", "events"))
    assert event["message"] == "deleted: c; chosen and still there: a"
    labels = {"namespace": "demo", "name": "chat"}
    assert metrics.registry.get_sample_value("cacheaware_other_pods_deleted_total", labels) == 1


def due(found, memory, now):
    return transitions(found, conditions(found), memory, now)


def test_an_event_is_due_once_per_transition():
    memory = ReportMemory()
    bad = Situation(mode="Scale", target_fault=Fault("TargetNotFound", "gone"))
    assert [reason for _, reason, _ in due(bad, memory, 0.0)] == ["TargetNotFound"]
    assert due(bad, memory, 100.0) == []
    assert due(Situation(mode="Scale"), memory, 200.0) == []
    assert due(bad, memory, 300.0)


def test_what_comes_and_goes_is_told_once_a_minute_and_what_then_stays_is_told_too():
    memory, told = ReportMemory(), []
    bad = Situation(mode="Scale", target_fault=Fault("TargetNotFound", "gone"))
    for second in range(0, 100, 5):
        found = Situation(mode="Scale") if second % 10 else bad
        told += [second for _ in due(found, memory, float(second))]
    assert told == [0, 60]
    assert due(bad, memory, 110.0) == []
    assert due(bad, memory, 120.0)
    assert due(bad, memory, 200.0) == []


@pytest.mark.parametrize("mode", ["Scale", "Advise"])
def test_a_decision_that_changes_each_round_is_no_storm_of_events(mode):
    memory, told = ReportMemory(), []
    for second in range(0, 121, 5):
        reason = ("AtMaximum", "Steady")[second // 5 % 2]
        decision = Decision(desired=3 + second % 10, current=2, reason=reason, message="why")
        found = due(Situation(mode=mode, decision=decision), memory, float(second))
        told += [(second, reason) for _, reason, _ in found]
    assert [second for second, reason in told if reason == "AtMaximum"] == [0, 60, 120]
    advised = [second for second, reason in told if reason == "Advised"]
    assert advised == ([0, 60, 120] if mode == "Advise" else [])


def test_that_no_pod_can_be_cordoned_is_told_once_and_not_again_where_a_sidecar_refused():
    def told(memory, now, limits, obstacle=None):
        decision = Decision(
            desired=1, current=2, reason="ScaledDown", message="why", limited_by=limits
        )
        fleet = FleetView(
            namespace="demo", name="chat", spec_replicas=2,
            pods=(PodView(name="p", load=PodLoad(), no_cordon=obstacle),),
        )  # fmt: skip
        return due(Situation(mode="Scale", fleet=fleet, decision=decision), memory, now)

    memory, limits = ReportMemory(), ("drain", "CordonUnavailable")
    assert told(memory, 0.0, limits) == [("Warning", "CordonUnavailable", "why")]
    assert told(memory, 5.0, limits) == []
    assert told(memory, 70.0, ()) == []
    assert told(memory, 75.0, limits)
    assert told(ReportMemory(), 0.0, limits, "its sidecar answers 403: no") == []


def test_advice_is_told_when_it_changes():
    memory = ReportMemory()

    def advised(desired, now):
        decision = Decision(desired=desired, current=2, reason="Advised", message="why")
        return due(Situation(mode="Advise", decision=decision), memory, now)

    assert advised(4, 0.0) == [("Normal", "Advised", "would scale 2 -> 4: why")]
    assert advised(4, 5.0) == []
    assert advised(2, 10.0) == []
    assert advised(4, 60.0)


def test_one_socket_listens_on_both_families(monkeypatch):
    with listen(0) as one:
        port = one.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            pass
        with pytest.raises(OSError, match="in use"):
            listen(port)


def test_a_node_without_ipv6_is_served_on_ipv4(monkeypatch):
    create = socket.create_server

    def no_ipv6(address, *, family=socket.AF_INET, **more):
        if family == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "no IPv6 here")
        return create(address, family=family, **more)

    monkeypatch.setattr("cacheaware.controller.server.socket.create_server", no_ipv6)
    with listen(0) as one:
        assert one.family == socket.AF_INET
