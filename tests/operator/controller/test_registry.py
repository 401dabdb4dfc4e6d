"""Records of what the watches tell, and who owns a target."""

import pytest
from tests.operator.conftest import scaler_body

from cacheaware import names
from cacheaware.controller.conflicts import conflict
from cacheaware.controller.handlers import record_foreign, record_scaler
from cacheaware.controller.registry import Registry, foreign_record, scaler_record
from cacheaware.observe.observer import Access
from cacheaware.observe.secrets import SecretRef
from cacheaware.observe.target import TargetRef


def body(name="chat", uid="u1", created="2026-01-01T00:00:00Z", owner=None, **spec):
    found = scaler_body(name=name, **spec)
    annotations = {names.OWNER: owner} if owner else {}
    found["metadata"] |= {"uid": uid, "creationTimestamp": created, "annotations": annotations}
    return found


def hpa(target="chat", api_version="apps/v1", kind="Deployment", uid="h1"):
    ref = {"apiVersion": api_version, "kind": kind, "name": target}
    meta = {"namespace": "demo", "name": "chat", "uid": uid}
    return {"metadata": meta, "spec": {"scaleTargetRef": ref}}


def registry(*bodies, hpas=(), scaled_objects=()):
    found = Registry()
    for one in bodies:
        record_scaler(found, None, one)
    for one in hpas:
        record_foreign(found, "HorizontalPodAutoscaler", None, one)
    for one in scaled_objects:
        record_foreign(found, "ScaledObject", None, one)
    return found


def test_a_scaler_is_reduced_to_what_rounds_use():
    secret = {"name": "key", "key": "token"}
    engine = {"ports": [8000, 8001], "path": "/m", "scheme": "HTTPS", "type": "VLLM"}
    found = scaler_record(
        body(observation="Direct", engine={**engine, "authorizationSecretRef": secret})
    )
    assert found.ref == TargetRef("demo", "apps/v1", "Deployment", "chat")
    assert found.policy.max_replicas == 10
    assert found.access == Access(
        observation="Direct",
        ports=(8000, 8001),
        path="/m",
        scheme="https",
        engine="vllm",
        secret=SecretRef("demo", "key", "token"),
        latency=False,
    )
    assert str(found) == "demo/chat"
    with_target = scaler_record(body(targets={"timeToFirstTokenMs": 800}))
    assert with_target.access.latency


def test_a_spec_that_cannot_be_used_is_told_with_the_field():
    found = scaler_record(body(minReplicas=5, maxReplicas=2))
    assert found.ref is None
    assert "minReplicas 5" in found.invalid
    assert conflict(found, registry()) is None


def test_an_odd_status_does_not_make_a_scaler_unusable():
    assert scaler_record({**body(), "status": {"conditions": "?"}}).invalid is None


def test_events_are_taken_in_and_deletion_forgets():
    found = registry(body(), hpas=[hpa()])
    assert set(found.scalers) == {"u1"}
    assert set(found.foreign) == {"h1"}
    record_scaler(found, "DELETED", body())
    record_foreign(found, "HorizontalPodAutoscaler", "DELETED", hpa())
    assert (found.scalers, found.foreign, found.delivered) == ({}, {}, {})


def test_a_scaler_that_is_being_deleted_is_gone():
    found, going = registry(body()), body()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    record_scaler(found, "MODIFIED", going)
    assert not found.scalers


def test_an_autoscaler_without_a_target_is_none():
    nothing = {"metadata": {"namespace": "demo", "name": "x", "uid": "x"}, "spec": {}}
    assert foreign_record("HorizontalPodAutoscaler", nothing) is None


@pytest.mark.parametrize(
    ("others", "owner"),
    [
        ({}, None),
        ({"hpas": [hpa()]}, "HorizontalPodAutoscaler chat"),
        ({"hpas": [hpa(api_version="apps/v1beta2")]}, "HorizontalPodAutoscaler chat"),
        ({"hpas": [hpa(target="other")]}, None),
        ({"hpas": [hpa(kind="StatefulSet")]}, None),
        ({"hpas": [hpa(api_version="example.com/v1")]}, None),
    ],
    ids=["nobody", "hpa", "another version", "another name", "another kind", "another group"],
)
def test_group_kind_and_name_tell_the_owner(others, owner):
    found = registry(body(), **others)
    assert conflict(found.scalers["u1"], found) == owner


def test_a_scaled_object_and_its_hpa_are_both_named():
    so = {"metadata": {"namespace": "demo", "name": "so", "uid": "s"}}
    so["spec"] = {"scaleTargetRef": {"name": "chat"}}
    found = registry(body(), hpas=[hpa()], scaled_objects=[so])
    owner = conflict(found.scalers["u1"], found)
    assert owner == "HorizontalPodAutoscaler chat and ScaledObject so"


def test_another_namespace_is_another_target():
    elsewhere = hpa()
    elsewhere["metadata"]["namespace"] = "prod"
    found = registry(body(), hpas=[elsewhere])
    assert conflict(found.scalers["u1"], found) is None


@pytest.mark.parametrize(
    ("first", "second", "loser"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "u2"),
        ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", "u1"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "u2"),
    ],
    ids=["older", "younger", "same age"],
)
def test_of_two_in_scale_the_older_writes(first, second, loser):
    target = body()["spec"]["scaleTargetRef"]
    second_one = body(name="b", uid="u2", created=second, scaleTargetRef=target)
    found = registry(body(created=first), second_one)
    conflicts = {uid for uid in found.scalers if conflict(found.scalers[uid], found)}
    assert conflicts == {loser}


def test_one_that_advises_is_no_rival():
    found = registry(body(), body(name="b", uid="u0", mode="Advise"))
    assert conflict(found.scalers["u1"], found) is None
