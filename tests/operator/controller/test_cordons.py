"""The cancelable drain by the whole operator, against sidecars and an API that are faked."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.operator.fake_api import Fault
from tests.operator.fake_pods import FakePod

from cacheaware.act import cordons

FAST_DOWN = {
    "stabilizationWindowSeconds": 0,
    "policies": [{"type": "Pods", "value": 9, "periodSeconds": 1}],
}
FAST_UP = {"policies": [{"type": "Pods", "value": 9, "periodSeconds": 1}]}
BEHAVIOR = {"scaleUp": FAST_UP, "scaleDown": FAST_DOWN}
BUDGETS = ("policy", "v1", "poddisruptionbudgets")
PODS = ("", "v1", "pods")


@pytest.fixture
async def drained(world):
    """Starts an operator over pods with these numbers of running requests."""

    async def start(*running, operator=None, **spec):
        loads = iter(running)

        def make():
            requests = next(loads, 0)
            return FakePod(running=requests, usage=0.02 * requests)

        world.workloads.make = make
        await world.workloads.deployment("demo", "chat", len(running))
        drain = {"sharePercent": 100, "deadlineSeconds": 300}
        await world.scaler(behavior=BEHAVIOR, drain=drain, **spec)
        await world.start(pod_namespace="ops", service_account="op", **(operator or {}))
        return world

    return start


def fakes(world):
    return world.workloads.fakes_of("demo", "chat")


def names(world):
    return [pod["metadata"]["name"] for pod in world.workloads.pods_of("demo", "chat")]


def out(world):
    return [name for name, fake in zip(names(world), fakes(world), strict=True) if fake.cordoned_by]


async def test_a_pod_leaves_the_endpoints_empties_and_only_then_the_replicas_fall(drained):
    world = await drained(5, 1)
    await world.until(lambda: out(world) == ["chat-002"])
    await world.rounds(3)
    assert world.replicas() == 2
    assert world.scale_writes() == []
    victim = fakes(world)[1]
    victim.running = victim.usage = 0
    await world.until(lambda: world.replicas() == 1)
    await world.until(lambda: world.workloads.removed == ["chat-002"])
    assert names(world) == ["chat-001"]
    assert fakes(world)[0].calls == []
    assert (await world.event("Cordoned"))["message"].startswith("chat-002: out of the endpoints")
    assert not world.events("OtherPodsDeleted")


async def test_replicas_fall_by_exactly_the_pods_that_are_empty(drained):
    world = await drained(9, 1, 2)
    await world.until(lambda: out(world) == ["chat-002", "chat-003"])
    await world.until(lambda: world.status().get("cordonedReplicas") == 2)
    shown = world.operator.metrics.registry.get_sample_value
    scaler = {"namespace": "demo", "name": "chat"}
    assert shown("cacheaware_cordoned_replicas", scaler) == 2
    fakes(world)[2].running = fakes(world)[2].usage = 0
    await world.until(lambda: world.replicas() == 2)
    await world.until(lambda: world.workloads.removed == ["chat-003"])
    await world.rounds(3)
    assert [call.body["spec"]["replicas"] for call in world.scale_writes()] == [2]
    assert out(world) == ["chat-002"]
    emptied = {**scaler, "outcome": "emptied"}
    assert shown("cacheaware_drain_seconds_count", emptied) == 1
    assert shown("cacheaware_control_calls_total", {"call": "cordon", "outcome": "accepted"}) == 2


async def test_a_pod_that_is_ready_again_by_the_newest_word_is_not_given_up(drained):
    """What was decided on is a moment old: the endpoints may have the pod again."""
    world = await drained(5, 1)
    await world.until(lambda: out(world) == ["chat-002"])
    select, asked = world.operator.pods.select, []

    def ready_at_second_look(namespace, selector):
        """The first look of a round is decided on, the second comes right before the write."""
        asked.append(namespace)
        second = len(asked) % 2 == 0
        return [replace(one, ready=one.ready or second) for one in select(namespace, selector)]

    world.operator.pods.select = ready_at_second_look
    fakes(world)[1].running = fakes(world)[1].usage = 0
    await world.until(lambda: len(asked) > 6)
    assert world.scale_writes() == []
    assert world.replicas() == 2


async def test_each_call_carries_a_token_for_that_pod_and_the_uid_of_the_scaler(drained):
    world = await drained(5, 1)
    await world.until(lambda: out(world))
    name, body, token = fakes(world)[1].calls[0]
    pod = world.workloads.pods_of("demo", "chat")[1]
    scaler = world.api.get(("cacheaware.dev", "v1alpha1", "cacheawarescalers"), "demo", "chat")
    assert (name, body) == ("cordon", {"by": scaler["metadata"]["uid"], "seconds": 60})
    assert token == f"Bearer token-1 cacheaware.dev/pod/{pod['metadata']['uid']}"


async def test_a_cordon_is_renewed_before_it_ends_with_the_token_it_has(drained, monkeypatch):
    monkeypatch.setattr(cordons, "RENEW_SECONDS", 0.1)
    world = await drained(5, 1)
    await world.until(lambda: len(fakes(world)[1].calls) >= 3)
    assert {name for name, _, _ in fakes(world)[1].calls} == {"cordon"}
    assert world.api.minted == 1


async def test_while_the_replicas_cannot_be_written_an_empty_pod_stays_out(drained, monkeypatch):
    monkeypatch.setattr(cordons, "RENEW_SECONDS", 0.1)
    world = await drained(5, 1)
    refusal = Fault(lambda method, path: method != "GET" and path.endswith("/scale"), 403)
    world.api.faults.append(refusal)
    await world.until(lambda: out(world) == ["chat-002"])
    fakes(world)[1].running = fakes(world)[1].usage = 0
    await world.until(world.scale_writes)
    renewed = len(fakes(world)[1].calls)
    await world.until(lambda: len(fakes(world)[1].calls) >= renewed + 3)
    assert out(world) == ["chat-002"]
    assert not world.events("Uncordoned")
    world.api.faults.remove(refusal)
    await world.until(lambda: names(world) == ["chat-001"])


async def test_a_pod_whose_cordon_may_end_at_any_moment_is_not_given_up(drained, monkeypatch):
    monkeypatch.setattr(cordons, "RENEW_SECONDS", 0.1)
    monkeypatch.setattr(cordons, "SURE_SECONDS", 1.0)
    world = await drained(5, 1)
    await world.until(lambda: out(world) == ["chat-002"])
    fakes(world)[1].cordon_status = 503
    await asyncio.sleep(1.2)
    fakes(world)[1].running = fakes(world)[1].usage = 0
    await world.rounds(4)
    assert world.scale_writes() == []
    fakes(world)[1].cordon_status = 200
    await world.until(lambda: names(world) == ["chat-001"])


async def test_between_renewals_a_sidecar_is_left_alone(drained):
    world = await drained(5, 1)
    await world.until(lambda: out(world))
    await world.rounds(4)
    assert len(fakes(world)[1].calls) == 1


async def test_load_that_returns_brings_the_pod_back_and_nothing_is_written(drained):
    world = await drained(5, 1)
    await world.until(lambda: out(world))
    busy = fakes(world)[0]
    busy.usage, busy.running = 0.95, 40
    await world.until(lambda: not out(world))
    await world.rounds(2)
    assert world.replicas() == 2
    assert world.scale_writes() == []
    assert "load has returned" in (await world.event("Uncordoned"))["message"]


async def test_after_a_drain_that_was_called_off_the_next_cordon_has_a_token_of_its_own(drained):
    world = await drained(5, 1)
    await world.until(lambda: out(world))
    busy = fakes(world)[0]
    busy.usage = 0.95
    await world.until(lambda: not out(world))
    busy.usage = 0.1
    await world.until(lambda: out(world))
    cordoned = [token for name, _, token in fakes(world)[1].calls if name == "cordon"]
    assert len(set(cordoned)) == 2


@pytest.mark.parametrize("status", [401, 403, 503])
async def test_a_sidecar_that_refuses_goes_by_its_own_drain_one_at_a_time(drained, status):
    world = await drained(5, 1, 2)
    for fake in fakes(world):
        fake.cordon_status = status
    await world.until(lambda: world.workloads.removed)
    assert world.replicas() == 2
    assert world.workloads.removed == ["chat-002"]
    limited = world.condition
    await world.until(lambda: "CordonUnavailable" in limited("ScalingLimited").get("message", ""))
    assert await world.event("CordonUnavailable")
    decision = next(one for one in world.status()["decisions"] if one["reason"] == "ScaledDown")
    assert f"its sidecar answers {status}: not by you" in decision["message"]


async def test_without_a_final_drain_a_sidecar_that_refuses_keeps_its_pod(drained, world):
    world.workloads.final_drain = False
    world = await drained(5, 1)
    for fake in fakes(world):
        fake.cordon_status = 403
    await world.until(lambda: len(world.events("CordonUnavailable")) == 1)
    await world.rounds(3)
    assert world.replicas() == 2


async def test_a_sidecar_that_hangs_spoils_only_its_own_cordon(drained, monkeypatch):
    monkeypatch.setattr("cacheaware.act.control.CALL_SECONDS", 0.3)
    world = await drained(9, 1, 2)
    fakes(world)[1].cordon_status = 0
    await world.until(lambda: "chat-003" in out(world))
    told = await world.until(lambda: world.events("CordonUnavailable"))
    assert "did not answer in 0.3 s" in told[0]["message"]


async def test_a_restart_takes_the_cordons_back_before_it_gives_anything_up(drained):
    world = await drained(5, 1)
    await world.until(lambda: out(world))
    victim = fakes(world)[1]
    await world.end()
    victim.running = victim.usage = 0
    await world.api.edit(
        ("cacheaware.dev", "v1alpha1", "cacheawarescalers"),
        "demo",
        "chat",
        {"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 300}}}},
    )
    await world.start(pod_namespace="ops", service_account="op")
    await world.until(lambda: not out(world))
    await world.rounds(2)
    assert world.replicas() == 2
    assert "earlier run" in (await world.event("Uncordoned"))["message"]


async def test_a_human_who_scales_up_during_a_drain_is_not_undone(drained):
    world = await drained(5, 1)
    await world.until(lambda: out(world))
    scaler = ("cacheaware.dev", "v1alpha1", "cacheawarescalers")
    slow = {"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 300}}}}
    await world.api.edit(scaler, "demo", "chat", slow)
    await world.api.edit(("apps", "v1", "deployments"), "demo", "chat", {"spec": {"replicas": 4}})
    await world.until(lambda: not out(world))
    await world.rounds(3)
    assert world.replicas() == 4
    assert world.scale_writes() == []


async def test_advise_never_cordons_and_takes_back_what_scale_began(drained):
    world = await drained(5, 1)
    await world.until(lambda: out(world))
    scaler = ("cacheaware.dev", "v1alpha1", "cacheawarescalers")
    await world.api.edit(scaler, "demo", "chat", {"spec": {"mode": "Advise"}})
    await world.until(lambda: not out(world))
    calls = len(fakes(world)[1].calls)
    await world.rounds(3)
    assert len(fakes(world)[1].calls) == calls


async def test_a_disruption_budget_keeps_its_last_disruption(drained):
    budget = {
        "metadata": {"namespace": "demo", "name": "keep", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "chat"}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 2, "desiredHealthy": 1},
    }
    world = await drained(9, 1, 2, mode="Advise")
    await world.api.put(BUDGETS, budget)
    scaler = ("cacheaware.dev", "v1alpha1", "cacheawarescalers")
    await world.api.edit(scaler, "demo", "chat", {"spec": {"mode": "Scale"}})
    await world.until(lambda: out(world) == ["chat-002"])
    await world.rounds(3)
    assert out(world) == ["chat-002"]


async def test_a_pod_that_is_deleted_hears_how_long_it_has(drained):
    world = await drained(40, 40)
    await world.rounds(1)
    name = names(world)[0]
    fake = fakes(world)[0]
    world.workloads.removed.append(name)
    stamp = "2099-01-01T00:00:00Z"  # the API's clock need not be ours
    going = {"deletionTimestamp": stamp, "deletionGracePeriodSeconds": 90}
    await world.api.edit(PODS, "demo", name, {"metadata": going})
    await world.until(lambda: fake.calls)
    call, body, _ = fake.calls[0]
    assert call == "deadline"
    assert 89 < body["seconds"] <= 90
    await world.rounds(3)
    assert len(fake.calls) == 1


async def test_without_the_lease_no_sidecar_is_called(drained):
    world = await drained(5, 9)
    await world.rounds(1)
    lease = world.operator.lease
    lease.held = lambda: False
    world.operator.kube.may_write = world.operator.control._may_call = lambda: False
    fakes(world)[1].running, fakes(world)[1].usage = 1, 0.02
    await asyncio.sleep(0.6)
    assert fakes(world)[1].calls == []


async def test_outside_a_cluster_there_is_no_account_and_so_no_cordon(world):
    world.workloads.make = lambda: FakePod(running=1, usage=0.02)
    await world.workloads.deployment("demo", "chat", 2)
    await world.scaler(behavior=BEHAVIOR)
    await world.start()
    told = await world.until(lambda: world.events("CordonUnavailable"))
    assert "no token can be made: NoAccount" in told[0]["message"]
    assert world.settings.service_account is None
