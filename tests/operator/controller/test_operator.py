"""The whole operator in this process, against a fake API server and fake pods."""

import asyncio
import re
import time

import pytest
from tests.operator.fake_api import KEDA, Fault

from cacheaware import names

HPAS = ("autoscaling", "v2", "horizontalpodautoscalers")
DEPLOYMENTS = ("apps", "v1", "deployments")
SCALERS = (names.GROUP, names.VERSION, names.PLURAL)
PODS = ("", "v1", "pods")
QUICK_DOWN = {
    "scaleDown": {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 10, "periodSeconds": 1}],
    }
}


async def loaded(world, *, replicas=1, usage=0.99, waiting=20, ns="demo", name="chat", **spec):
    """A Deployment whose pods carry a load, its scaler, and an operator."""
    await world.workloads.deployment(ns, name, replicas)
    for pod in world.workloads.fakes_of(ns, name):
        pod.usage, pod.waiting, pod.running = usage, waiting, 1 if usage else 0
    await world.scaler(ns, name, **spec)


def foreign(name="chat", target="chat", api_version="apps/v1"):
    ref = {"apiVersion": api_version, "kind": "Deployment", "name": target}
    return {"metadata": {"namespace": "demo", "name": name}, "spec": {"scaleTargetRef": ref}}


async def test_it_grows_under_load_on_the_version_it_read(world):
    await loaded(world)
    await world.start()
    await world.until(lambda: world.replicas() > 1)
    await world.until(lambda: world.status().get("lastScaleTime"))
    (write, *_) = world.scale_writes()
    assert write.content_type == "application/merge-patch+json"
    assert write.query["fieldManager"] == "cacheaware"
    assert write.body["metadata"]["resourceVersion"].isdigit()
    assert (await world.event("ScaledUp"))["involvedObject"]["kind"] == "CacheAwareScaler"


async def test_it_shrinks_to_the_idle_and_takes_the_chosen_pod(world):
    await loaded(world, replicas=2, usage=0.0, waiting=0, behavior=QUICK_DOWN)
    await world.start()
    await world.until(lambda: world.replicas() == 1)
    await world.until(lambda: world.workloads.removed)
    (chosen,) = [
        c.path.rpartition("/")[2]
        for c in world.api.calls
        if c.method == "PATCH" and "/pods/" in c.path and "-21474836" in str(c.body)
    ]
    assert world.workloads.removed == [chosen]
    await world.until(lambda: world.status().get("currentReplicas") == 1)
    assert not world.events("OtherPodsDeleted")


async def test_advise_writes_nothing_but_status_and_events(world):
    await loaded(world, mode="Advise")
    await world.start()
    await world.until(lambda: world.status().get("desiredReplicas", 0) > 1)
    await world.rounds(3)
    written = {re.sub(r"events/.*", "events", c.path) for c in world.api.writes()}
    assert written == {
        f"/apis/{names.API_VERSION}/namespaces/demo/{names.PLURAL}/chat/status",
        "/api/v1/namespaces/demo/events",
    }
    assert world.condition("ScalingActive")["reason"] == "Advised"
    assert await world.event("Advised")


async def test_nothing_ever_sets_a_finalizer(world):
    await loaded(world)
    await world.api.put(HPAS, foreign(name="other", target="other"))
    await world.start()
    await world.until(lambda: world.replicas() > 1)
    await world.scaler(maxReplicas=12)
    await world.rounds(3)
    assert not any("finalizers" in str(call.body) for call in world.api.calls)
    await world.end()
    for body in world.api.objects.values():
        assert not body["metadata"].get("finalizers")
        assert not any("kopf" in key for key in body["metadata"].get("annotations") or ())


async def test_zero_replicas_mean_paused(world):
    await loaded(world)
    await world.api.edit(DEPLOYMENTS, "demo", "chat", {"spec": {"replicas": 0}})
    await world.start()
    await world.until(lambda: world.condition("ScalingActive").get("reason") == "Paused")
    await world.rounds(3)
    assert world.scale_writes() == []


async def test_a_write_in_between_makes_the_round_be_done_anew_at_once(world):
    await loaded(world)
    operator = await world.start()
    labels = {"metadata": {"labels": {"a": "b"}}}
    meddling(operator, lambda: world.api.edit(DEPLOYMENTS, "demo", "chat", labels))
    await world.until(lambda: world.replicas() > 1)
    first, second, *_ = world.scale_writes()
    assert first.body["metadata"]["resourceVersion"] != second.body["metadata"]["resourceVersion"]
    assert second.at - first.at < world.settings.round_seconds


def meddling(operator, meddle):
    """Let something happen once, after a round has read its target and before it writes."""
    read, done = operator.round.targets.read, []

    async def read_and_meddle(ref):
        target = await read(ref)
        if not done:
            done.append(True)
            await meddle()
        return target

    operator.round.targets.read = read_and_meddle
    return done


async def test_a_round_that_outlives_the_lease_writes_nothing_at_all(world):
    """As after a pause of the whole process: what it was about to write is another's by now."""
    await loaded(world, replicas=2, usage=0.0, waiting=0, behavior=QUICK_DOWN)
    operator = await world.start()

    before = []

    async def pause():
        before.extend(world.api.writes())
        operator.lease._clock = lambda: time.monotonic() + 3600

    done = meddling(operator, pause)
    await world.until(lambda: done)
    await world.until(lambda: operator.rounds.completed_at)
    assert world.api.writes() == before


async def test_a_change_to_advise_in_the_middle_of_a_round_is_obeyed(world):
    await loaded(world)
    operator = await world.start()

    async def advise():
        await world.api.edit(SCALERS, "demo", "chat", {"spec": {"mode": "Advise"}})
        await world.until(
            lambda: all(one.policy.mode == "Advise" for one in operator.registry.scalers.values())
        )

    meddling(operator, advise)
    await world.until(lambda: world.status().get("observedGeneration") == 2)
    assert world.scale_writes() == []


@pytest.mark.parametrize("what", ["deleted", "owned by an HPA"])
async def test_what_the_watches_tell_in_the_middle_of_a_round_stops_its_write(world, what):
    await loaded(world)
    operator = await world.start()

    async def meddle():
        if what == "deleted":
            await world.api.delete(SCALERS, "demo", "chat")
            await world.until(lambda: not operator.registry.scalers)
        else:
            await world.api.put(HPAS, foreign())
            await world.until(lambda: operator.registry.foreign)

    done = meddling(operator, meddle)
    await world.until(lambda: done)
    await world.rounds(3)
    assert world.scale_writes() == []


async def test_a_victim_that_went_by_itself_is_no_failure(world):
    await loaded(world, replicas=3, usage=0.0, waiting=0, behavior=QUICK_DOWN)
    first = Fault(
        lambda method, path: method == "PATCH" and "/pods/" in path, status=404, reason="NotFound",
        times=1,
    )  # fmt: skip
    world.api.faults.append(first)
    await world.start()
    await world.until(lambda: world.replicas() == 1)
    assert first.times == 0
    assert not world.events("WriteFailed")


async def test_marks_of_another_scaler_are_left_alone_and_those_of_none_are_swept(world):
    """The other may be about to shrink: without its marks other pods would go."""
    await loaded(world, replicas=2, usage=0.5, waiting=0, mode="Advise")
    other = await world.scaler(
        name="elsewhere", mode="Advise", scaleTargetRef={"kind": "Deployment", "name": "gone"}
    )
    pods = [pod["metadata"]["name"] for pod in world.workloads.pods_of("demo", "chat")]
    for pod, by in zip(pods, (other["metadata"]["uid"], "long gone"), strict=True):
        mark = {names.DELETION_COST: "-5", names.DELETION_COST_OWNER: f'{{"by":"{by}"}}'}
        await world.api.edit(PODS, "demo", pod, {"metadata": {"annotations": mark}})
    await world.start()

    def costs():
        found = (world.api.get(PODS, "demo", pod)["metadata"]["annotations"] for pod in pods)
        return [one.get(names.DELETION_COST) for one in found]

    await world.until(lambda: costs()[1] is None)
    await world.rounds(3)
    assert costs() == ["-5", None]


async def test_numbers_of_a_target_that_is_gone_are_not_shown_on(world):
    await loaded(world, usage=0.5, waiting=0)
    operator = await world.start()
    sample = operator.metrics.registry.get_sample_value
    labels = {"namespace": "demo", "name": "chat"}
    await world.until(lambda: sample("cacheaware_desired_replicas", labels))
    await world.api.delete(DEPLOYMENTS, "demo", "chat")
    await world.until(lambda: world.condition("TargetResolved").get("status") == "False")
    assert sample("cacheaware_desired_replicas", labels) is None


async def test_an_hpa_on_the_target_stops_our_writes_until_it_goes(world):
    await world.api.put(HPAS, foreign())
    await loaded(world)
    await world.start()
    await world.until(lambda: world.condition("Conflicted").get("status") == "True")
    await world.rounds(5)
    assert world.scale_writes() == []
    assert "HorizontalPodAutoscaler chat" in world.condition("Conflicted")["message"]
    event = await world.event("TargetConflict")
    assert len(world.events("TargetConflict")) == 1
    assert (event["type"], event["count"]) == ("Warning", 1)
    assert world.condition("MetricsAvailable")["status"] == "True"

    await world.api.delete(HPAS, "demo", "chat")
    await world.until(lambda: world.replicas() > 1)

    before = len(world.scale_writes())
    await world.api.put(HPAS, foreign(name="later"))
    await world.until(lambda: world.condition("Conflicted").get("status") == "True")
    await world.rounds(3)
    assert len(world.scale_writes()) <= before + 1


async def test_a_scaled_object_counts_and_its_kind_defaults_to_deployment(world):
    world.api.kinds[KEDA] = ("ScaledObject", True, ())
    body = {
        "metadata": {"namespace": "demo", "name": "so"},
        "spec": {"scaleTargetRef": {"name": "chat"}},
    }
    await world.api.put(KEDA, body)
    await loaded(world)
    await world.start()
    await world.until(lambda: "ScaledObject so" in world.condition("Conflicted").get("message", ""))
    assert world.scale_writes() == []


async def test_in_advise_a_foreign_owner_is_information(world):
    await world.api.put(HPAS, foreign())
    await loaded(world, mode="Advise")
    await world.start()
    await world.until(lambda: world.status().get("desiredReplicas", 0) > 1)
    found = world.condition("Conflicted")
    assert found["status"] == "False"
    assert "HorizontalPodAutoscaler chat" in found["message"]
    assert not world.events("TargetConflict")


async def test_of_two_scalers_on_a_target_the_older_writes(world):
    await loaded(world)
    younger = {"creationTimestamp": "2035-01-01T00:00:00Z"}
    body = world.api.get(SCALERS, "demo", "chat")
    await world.api.put(
        SCALERS,
        {"metadata": {"namespace": "demo", "name": "second", **younger}, "spec": body["spec"]},
    )
    await world.start()
    await world.until(lambda: world.condition("Conflicted", name="second").get("status") == "True")
    assert "older CacheAwareScaler chat" in world.condition("Conflicted", name="second")["message"]
    await world.until(lambda: world.condition("Conflicted").get("status") == "False")
    await world.until(lambda: world.replicas() > 1)


async def test_same_names_in_two_namespaces_are_kept_apart(world, case):
    await world.api.put(("", "v1", "namespaces"), {"metadata": {"name": "prod"}})
    await world.api.put(("", "v1", "namespaces"), {"metadata": {"name": "dev"}})
    for target in case("023", "input.state.json")["targets"]:
        await loaded(world, ns=target["ns"], name=target["name"], usage=target["kv"][0], waiting=0)
    await world.start()
    for place, replicas in case("023", "expect.json").items():
        ns, name = place.split("/")
        await world.until(lambda: world.status(ns, name).get("desiredReplicas") == replicas)  # noqa: B023
    await world.rounds(3)
    assert (world.replicas("prod"), world.replicas("dev")) == (2, 1)


async def test_a_deleted_scaler_is_dropped_with_all_its_series(world):
    await loaded(world)
    operator = await world.start()
    await world.until(lambda: world.status().get("desiredReplicas"))
    await world.api.delete(SCALERS, "demo", "chat")
    await world.until(lambda: not operator.registry.scalers)
    await world.rounds(2)
    from prometheus_client import generate_latest

    assert b'name="chat"' not in generate_latest(operator.metrics.registry)
    await world.scaler(mode="Advise")
    await world.until(lambda: world.status().get("desiredReplicas"))


async def test_a_restart_in_the_middle_shrinks_nothing(world):
    await loaded(world, replicas=4, usage=0.0, waiting=0)
    for _ in range(2):
        await world.start()
        await world.until(lambda: world.status().get("desiredReplicas"))
        await world.rounds(3)
        await world.end()
    assert world.replicas() == 4
    assert world.scale_writes() == []


async def test_a_missing_target_is_told_and_spoils_only_itself(world):
    await world.scaler(name="lost")
    await loaded(world)
    await world.start()
    await world.until(
        lambda: world.condition("TargetResolved", name="lost").get("status") == "False"
    )
    assert world.condition("TargetResolved", name="lost")["reason"] == "TargetNotFound"
    assert "Deployment demo/lost" in world.condition("Ready", name="lost")["message"]
    await world.until(lambda: world.replicas() > 1)


async def test_a_kind_without_scale_is_told(world):
    target = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "chat"}
    await world.scaler(scaleTargetRef=target)
    await world.start()
    await world.until(lambda: "no scale subresource" in world.condition("Ready").get("message", ""))


async def test_a_spec_that_an_old_crd_let_through_is_told(world):
    await loaded(world, maxReplicas=0)
    await world.start()
    await world.until(lambda: world.condition("Ready").get("reason") == "InvalidSpec")
    assert "maxReplicas" in world.condition("Ready")["message"]


async def test_the_lease_is_held_even_alone_and_given_up_at_the_end(world):
    await loaded(world)
    operator = await world.start()
    leases = ("coordination.k8s.io", "v1", "leases")
    await world.until(lambda: world.api.get(leases, "ops", names.LEASE)["spec"]["holderIdentity"])
    holder = world.api.get(leases, "ops", names.LEASE)["spec"]["holderIdentity"]
    assert holder == operator.lease.identity
    assert await world.end() == 0
    assert world.api.get(leases, "ops", names.LEASE)["spec"]["holderIdentity"] == ""


async def test_without_the_lease_nothing_is_written(world):
    leases = ("coordination.k8s.io", "v1", "leases")
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    await world.api.put(
        leases, {"metadata": {"namespace": "ops", "name": names.LEASE}, "spec": spec}
    )
    await loaded(world)
    operator = await world.start()
    await world.until(lambda: operator.rounds.completed_at)
    await world.rounds(5)
    assert world.api.writes() == []
    assert not operator.lease.held()


async def test_a_lost_lease_ends_the_process_with_an_error(world):
    await loaded(world, mode="Advise")
    operator = await world.start()
    await world.until(operator.lease.held)
    leases = ("coordination.k8s.io", "v1", "leases")
    await world.api.edit(leases, "ops", names.LEASE, {"spec": {"holderIdentity": "another"}})
    async with asyncio.timeout(15):
        assert await world.task == 1
    assert not operator.lease.held()
    world.task = None


async def test_costs_left_by_an_operator_before_are_swept(world):
    await loaded(world, usage=0.5, waiting=0)
    (pod,) = world.workloads.pods_of("demo", "chat")
    ours = {names.DELETION_COST: "-2147483647", names.DELETION_COST_OWNER: '{"by":"x","was":7}'}
    name = pod["metadata"]["name"]
    await world.api.edit(PODS, "demo", name, {"metadata": {"annotations": ours}})
    await world.start()
    await world.until(
        lambda: (
            names.DELETION_COST_OWNER
            not in world.api.get(PODS, "demo", name)["metadata"]["annotations"]
        )
    )
    kept = world.api.get(PODS, "demo", name)["metadata"]["annotations"]
    assert kept == {names.DELETION_COST: "7"}


async def test_a_foreign_deletion_cost_is_left_alone(world):
    await loaded(world, usage=0.5, waiting=0)
    (pod,) = world.workloads.pods_of("demo", "chat")
    name = pod["metadata"]["name"]
    foreign_cost = {"metadata": {"annotations": {names.DELETION_COST: "100"}}}
    await world.api.edit(PODS, "demo", name, foreign_cost)
    await world.start()
    await world.until(lambda: world.status().get("desiredReplicas"))
    await world.rounds(3)
    assert world.api.get(PODS, "demo", name)["metadata"]["annotations"] == {
        names.DELETION_COST: "100"
    }


async def test_the_status_is_written_only_when_a_person_would_care(world):
    await loaded(world, usage=0.5, waiting=0)
    await world.start()
    await world.until(lambda: world.condition("Ready").get("status") == "True")
    await world.rounds(2)
    before = len([c for c in world.api.writes() if c.path.endswith("/status")])
    await world.rounds(6)
    after = len([c for c in world.api.writes() if c.path.endswith("/status")])
    assert after <= before + 1
