"""Nonsense is refused, by the API server and by the models alike, in words that help."""

import pytest
from pydantic import ValidationError

from cacheaware.api.models import CacheAwareScaler

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}

EIGHT = {"cron": "0 8 * * *", "durationSeconds": 3600, "minReplicas": 2}
QUEUE = {"url": "http://gateway:9090/metrics", "metric": "queue"}
NONSENSE = [
    ({"minReplicas": 0}, "minReplicas must be 1 or more: nothing could wake a workload"),
    ({"minReplicas": 5, "maxReplicas": 3}, "minReplicas 5 must not be greater than maxReplicas 3"),
    (
        {"fallback": {"replicas": 11}},
        "fallback.replicas 11 must not be greater than maxReplicas 10",
    ),
    (
        {"targets": {"kvUtilizationPercent": 95}},
        "targets.kvUtilizationPercent 95 with behavior.scaleUp.tolerancePercent 10 can never be",
    ),
    (
        {"scaleTargetRef": {**TARGET, "kind": "CacheAwareScaler"}},
        "kind must be a workload such as Deployment",
    ),
    (
        {"scaleTargetRef": {**TARGET, "apiVersion": "apps"}},
        "apiVersion apps must be a group and version such as apps/v1",
    ),
    ({"scaleTargetRef": {**TARGET, "name": "Chat"}}, "name Chat must be that of a workload"),
    ({"scaleTargetRef": {**TARGET, "name": "chat\n"}}, "must be that of a workload"),
    ({"engine": {"path": "metrics"}}, "path metrics must begin with /"),
    ({"engine": {"path": "/metrics?x=1"}}, "and hold no query"),
    (
        {"engine": {"authorizationSecretRef": {"name": "Key"}}},
        "name Key must be that of a Secret",
    ),
    (
        {"engine": {"authorizationSecretRef": {"name": "key", "key": "a b"}}},
        "key a b must be a key of the Secret",
    ),
    ({"schedules": [{**EIGHT, "cron": "0 0 8 * * *"}]}, "cron 0 0 8 * * * must have five fields"),
    ({"schedules": [{**EIGHT, "timeZone": "a b"}]}, "timeZone a b must be an IANA name"),
    ({"schedules": [{**EIGHT, "minReplicas": 11}]}, "must not be greater than maxReplicas 10"),
    ({"warmPool": 11}, "warmPool 11 must not be greater than maxReplicas 10"),
    ({"activation": {**QUEUE, "url": "ftp://x/y"}}, "url ftp://x/y must be that of a metrics page"),
    ({"activation": {**QUEUE, "metric": "a b"}}, "metric a b must be the name of a metric"),
    (
        {"activation": {**QUEUE, "labels": [{"name": "a-b", "value": ""}]}},
        "name a-b must be that of a label",
    ),
]
OUT_OF_BOUNDS = [
    {"maxReplicas": 0},
    {"maxReplicas": 10_001},
    {"maxReplicas": "3"},
    {"maxReplicas": 2.5},
    {"maxReplicas": True},
    {"maxReplicas": None},
    {"minReplicas": -1},
    {"mode": "scale"},
    {"observation": "Both"},
    {"scaleTargetRef": {**TARGET, "kind": ""}},
    {"scaleTargetRef": {**TARGET, "apiVersion": ""}},
    {"scaleTargetRef": {**TARGET, "name": "x" * 254}},
    {"scaleTargetRef": {"kind": "Deployment", "name": "chat"}},
    {"targets": {"kvUtilizationPercent": 0}},
    {"targets": {"kvUtilizationPercent": 101}},
    {"targets": {"pendingPerReplica": 0}},
    {"targets": {"timeToFirstTokenMs": 0}},
    {"engine": {"type": "vllm"}},
    {"engine": {"ports": []}},
    {"engine": {"ports": [0]}},
    {"engine": {"ports": [8000, 8000]}},
    {"engine": {"ports": list(range(1, 18))}},
    {"engine": {"role": "prefill"}},
    {"behavior": {"scaleUp": {"policies": []}}},
    {"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 15}]}}},
    {"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1}]}}},
    {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 3601}}},
    {"behavior": {"scaleDown": {"selectPolicy": "Average"}}},
    {"behavior": {"scaleDown": {"tolerancePercent": 101}}},
    {"drain": {"sharePercent": 0}},
    {"headroomPercent": 101},
    {"warmPool": -1},
    {"maxGpus": 0},
    {"schedules": [{**EIGHT, "durationSeconds": 59}]},
    {"schedules": [{**EIGHT, "minReplicas": 0}]},
    {"schedules": [{"cron": "0 8 * * *", "minReplicas": 2}]},
    {"schedules": [EIGHT] * 17},
    {"activation": {"metric": "queue"}},
    {"activation": {**QUEUE, "idleSeconds": 29}},
    {"activation": {**QUEUE, "threshold": -1}},
    {"activation": {**QUEUE, "labels": [{"name": "a", "value": "b"}, {"name": "a", "value": ""}]}},
    {"drain": {"deadlineSeconds": 0}},
    {"fallback": {"afterSeconds": 600}},
    {"fallback": {"afterSeconds": 1, "replicas": 2}},
]


@pytest.mark.parametrize(("spec", "words"), NONSENSE, ids=[words[:40] for _, words in NONSENSE])
def test_a_broken_rule_is_refused_by_both_in_the_same_words(spec, words, scaler, refusals):
    (refusal,) = refusals(scaler(**spec))
    with pytest.raises(ValidationError) as error:
        CacheAwareScaler.model_validate(scaler(**spec))

    message = error.value.errors()[0]["msg"]
    assert words in message
    assert set(refusal.split()) <= set(message.split()), "the same words, without the values"


@pytest.mark.parametrize(("number", "spec"), list(enumerate(OUT_OF_BOUNDS)))
def test_what_is_out_of_bounds_is_refused_by_both(number, spec, scaler, refusals):
    assert refusals(scaler(**spec))
    with pytest.raises(ValidationError):
        CacheAwareScaler.model_validate(scaler(**spec))


def test_the_least_that_a_user_must_write_is_taken(scaler, refusals):
    assert refusals(scaler()) == []
    assert CacheAwareScaler.model_validate(scaler()).spec.mode == "Advise"


def test_a_typo_in_the_target_can_be_mended_until_the_first_scaling(scaler, refusals):
    wrong, right = scaler(scaleTargetRef={**TARGET, "name": "caht"}), scaler()
    seen = {**wrong, "status": {"currentReplicas": 2}}

    assert refusals(right, old=wrong) == []
    assert refusals({**right, "status": seen["status"]}, old=seen) == []


def test_the_target_is_fixed_once_it_was_scaled(scaler, refusals):
    scaled = {"status": {"lastScaleTime": "2026-01-01T00:00:00Z"}}
    old, new = {**scaler(), **scaled}, {**scaler(scaleTargetRef={**TARGET, "name": "b"}), **scaled}

    (refusal,) = refusals(new, old=old)
    assert refusal.startswith("scaleTargetRef cannot be changed once the target has been scaled")
    assert refusals({**scaler(maxReplicas=4), **scaled}, old=old) == []
