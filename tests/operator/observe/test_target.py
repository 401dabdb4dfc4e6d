"""Targets through their scale subresource."""

import pytest
import yaml
from tests.operator.fake_api import Fault

from cacheaware.kube import KubeError
from cacheaware.names import Reasons
from cacheaware.observe.target import TargetError, TargetRef, Targets, leaders, rolling_out
from cacheaware.pods import PodRecord

DEPLOYMENTS = ("apps", "v1", "deployments")
REF = TargetRef("demo", "apps/v1", "Deployment", "chat")
SETTLED = {"replicas": 2, "updatedReplicas": 2, "observedGeneration": 1}


async def deployment(api, *, replicas=2, status=SETTLED, labels=("app", "chat")):
    selector = {"matchLabels": dict([labels])} if labels else {}
    spec = {"replicas": replicas, "selector": selector}
    meta = {"namespace": "demo", "name": "chat"}
    return await api.put(DEPLOYMENTS, {"metadata": meta, "spec": spec, "status": status})


def reads(api, ending):
    return [c for c in api.calls if c.path.endswith(ending)]


async def test_it_is_read_through_its_scale(api, kube):
    body = await deployment(api)
    target = await Targets(kube).read(REF)
    assert (target.spec_replicas, target.rollout) == (2, False)
    assert target.resource_version == body["metadata"]["resourceVersion"]
    assert target.selector.matches({"app": "chat"})
    assert target.path == "/apis/apps/v1/namespaces/demo/deployments/chat/scale"


async def test_discovery_is_asked_once_and_an_unchanged_object_is_not_read_again(api, kube):
    await deployment(api)
    targets = Targets(kube)
    for _ in range(3):
        await targets.read(REF)
    assert len(reads(api, "/apis/apps/v1")) == 1
    assert len(reads(api, "/deployments/chat")) == 1
    await api.edit(DEPLOYMENTS, "demo", "chat", {"status": {"updatedReplicas": 1}})
    assert (await targets.read(REF)).rollout
    targets.forget(set())
    await targets.read(REF)
    assert len(reads(api, "/deployments/chat")) == 3


async def test_a_404_asks_discovery_anew(api, kube):
    await deployment(api)
    targets = Targets(kube)
    await targets.read(REF)
    await api.delete(DEPLOYMENTS, "demo", "chat")
    with pytest.raises(TargetError, match="Deployment demo/chat"):
        await targets.read(REF)
    assert len(reads(api, "/apis/apps/v1")) == 2
    await deployment(api)
    assert (await targets.read(REF)).spec_replicas == 2


async def test_zero_replicas_are_zero_though_the_api_leaves_them_out(api, kube):
    await deployment(api, replicas=0)
    assert (await Targets(kube).read(REF)).spec_replicas == 0


@pytest.mark.parametrize(
    ("ref", "reason", "said"),
    [
        (TargetRef("demo", "apps/v1", "Deployment", "none"), Reasons.TARGET_NOT_FOUND, "none"),
        (TargetRef("demo", "apps/v1", "Spaceship", "x"), Reasons.TARGET_NOT_FOUND, "no kind"),
        (TargetRef("demo", "none/v1", "X", "x"), Reasons.TARGET_NOT_FOUND, "none/v1"),
        (TargetRef("demo", "v1", "Pod", "x"), Reasons.TARGET_NOT_FOUND, "no scale subresource"),
    ],
)
async def test_what_is_not_there_is_named(api, kube, ref, reason, said):
    with pytest.raises(TargetError, match=said) as error:
        await Targets(kube).read(ref)
    assert error.value.reason == reason


async def test_a_target_that_may_not_be_read_is_told(api, kube):
    await deployment(api)
    api.faults.append(
        Fault(lambda _, path: path.endswith("/scale"), status=403, reason="Forbidden")
    )
    with pytest.raises(TargetError) as error:
        await Targets(kube).read(REF)
    assert error.value.reason == Reasons.TARGET_FORBIDDEN


async def test_another_failure_is_the_apis(api, kube):
    api.faults.append(Fault(lambda _, path: path.endswith("/scale"), status=500))
    with pytest.raises(KubeError):
        await Targets(kube).read(REF)


async def test_a_target_without_a_selector_is_refused(api, kube):
    await deployment(api, labels=None)
    with pytest.raises(TargetError, match="selector is empty"):
        await Targets(kube).read(REF)


async def test_a_rollout_that_cannot_be_seen_counts_as_one(api, kube):
    await deployment(api)
    api.faults.append(Fault(lambda _, path: path.endswith("/chat"), status=403, reason="Forbidden"))
    target = await Targets(kube).read(REF)
    assert target.rollout
    assert "no shrink" in target.problem


async def test_a_kind_of_others_has_no_rollout_that_we_know(api, kube):
    kind = ("example.com", "v1", "workers")
    api.kinds[kind] = ("Worker", True, ("scale",))
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "w"}}}
    await api.put(kind, {"metadata": {"namespace": "demo", "name": "w"}, "spec": spec})
    target = await Targets(kube).read(TargetRef("demo", "example.com/v1", "Worker", "w"))
    assert (target.spec_replicas, target.rollout) == (3, False)


REVISED = {"observedGeneration": 1, "currentRevision": "a", "updateRevision": "b"}


@pytest.mark.parametrize(
    ("kind", "generation", "spec", "status", "expected"),
    [
        ("Deployment", 1, {}, SETTLED, False),
        ("Deployment", 2, {}, SETTLED, True),
        ("Deployment", 1, {}, {**SETTLED, "updatedReplicas": 1}, True),
        ("Deployment", 1, {}, {"observedGeneration": 1}, False),
        ("StatefulSet", 1, {}, REVISED, True),
        ("StatefulSet", 1, {}, {**REVISED, "currentRevision": "b"}, False),
        ("StatefulSet", 1, {"updateStrategy": {"type": "OnDelete"}}, REVISED, False),
        ("StatefulSet", 1, {"updateStrategy": {"rollingUpdate": {"partition": 2}}}, REVISED, False),
    ],
)
def test_a_rollout_is_seen(kind, generation, spec, status, expected):
    body = {"kind": kind, "metadata": {"generation": generation}, "spec": spec, "status": status}
    assert rolling_out(body) is expected


LWS = ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets")
GROUPS = TargetRef("demo", "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "big")


async def groups(api, case):
    body = yaml.safe_load(case("022", "input.lws.yaml"))
    body["spec"]["selector"] = {"matchLabels": {"leaderworkerset.sigs.k8s.io/name": "big"}}
    api.kinds[LWS] = ("LeaderWorkerSet", True, ("scale",))
    return await api.put(LWS, body)


async def test_022_a_groups_gpus_are_read_and_only_its_leader_is_a_replica(api, kube, case):
    await groups(api, case)
    target = await Targets(kube).read(GROUPS)
    records = [
        PodRecord(namespace="demo", name=one["name"], uid=one["name"], labels=one["labels"])
        for one in case("022", "input.pods.json")
    ]

    assert (target.spec_replicas, target.gpus, target.rollout) == (2, 32, False)
    assert [one.name for one in leaders(GROUPS, records)] == ["big-0", "big-1"]
    assert leaders(REF, records) == records


async def test_022_groups_without_a_scale_subresource_are_refused(api, kube, case):
    await groups(api, case)
    api.kinds[LWS] = ("LeaderWorkerSet", True, ())
    with pytest.raises(TargetError, match="no scale subresource") as error:
        await Targets(kube).read(GROUPS)
    assert error.value.reason == Reasons.TARGET_NOT_FOUND


async def test_gpus_stay_known_while_the_object_cannot_be_read(api, kube, case):
    await groups(api, case)
    targets = Targets(kube)
    await targets.read(GROUPS)
    api.faults.append(Fault(lambda _, path: path.endswith("/big"), status=500, times=1))
    await api.edit(LWS, "demo", "big", {"metadata": {"labels": {"a": "b"}}})
    unread = await targets.read(GROUPS)

    assert (unread.gpus, unread.rollout) == (32, False)
    assert "can't be read" in unread.problem


async def test_who_wrote_the_replicas_is_known(api, kube):
    await deployment(api)
    argo = {"manager": "argocd-controller", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    await api.edit(DEPLOYMENTS, "demo", "chat", {"metadata": {"managedFields": [argo]}})

    assert (await Targets(kube).read(REF)).replicas_by == "argocd-controller"
