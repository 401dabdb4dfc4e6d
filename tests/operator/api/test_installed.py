"""An installed CRD that lacks fields is told, field by field, with the effect."""

import copy

import yaml

from cacheaware.api.crd import crd
from cacheaware.api.installed import missing_fields

LACKS = "{} is missing in the installed CRD: "


def version(body):
    return body["spec"]["versions"][0]


def spec_of(body):
    return version(body)["schema"]["openAPIV3Schema"]["properties"]["spec"]


def test_our_own_crd_lacks_nothing():
    assert missing_fields(crd()) == []


def test_an_old_crd_is_told_with_every_missing_field_and_its_effect(case):
    old = copy.deepcopy(crd())
    version(old)["schema"]["openAPIV3Schema"] = yaml.safe_load(case("097", "input.old-schema.yaml"))

    lines = missing_fields(old)

    assert case("097", "expect.json")["reported"] is bool(lines)
    told = {line.split(" is missing", 1)[0]: line for line in lines}
    assert "at most 2 pods per minute apply" in told["spec.behavior.scaleUp.policies"]
    assert "300 applies" in told["spec.behavior.scaleDown.stabilizationWindowSeconds"]
    assert "status.decisions" in told
    assert "spec.scaleTargetRef.name" in told


def test_one_missing_limit_is_one_line():
    old = copy.deepcopy(crd())
    del spec_of(old)["properties"]["behavior"]["properties"]["scaleDown"]["properties"]["policies"]

    assert missing_fields(old) == [
        LACKS.format("spec.behavior.scaleDown.policies")
        + "whatever is set, at most 2 pods per minute apply"
    ]


def test_a_missing_field_without_a_default_is_simply_dropped():
    old = copy.deepcopy(crd())
    del spec_of(old)["properties"]["targets"]["properties"]["timeToFirstTokenMs"]
    items = version(old)["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    del items["conditions"]["items"]["properties"]["message"]

    assert missing_fields(old) == [
        LACKS.format("spec.targets.timeToFirstTokenMs") + "whatever is set is dropped",
        LACKS.format("status.conditions[].message") + "it is not stored, so it is not shown",
    ]


def test_a_schema_that_keeps_unknown_fields_lacks_none():
    old = copy.deepcopy(crd())
    spec_of(old).clear()
    spec_of(old).update({"type": "object", "x-kubernetes-preserve-unknown-fields": True})

    assert missing_fields(old) == []


def test_a_missing_version_and_a_missing_subresource_are_told():
    other, plain = copy.deepcopy(crd()), copy.deepcopy(crd())
    version(other)["name"] = "v1"
    del version(plain)["subresources"]

    assert missing_fields(other) == [
        "version v1alpha1 is not served by the installed CRD: nothing can be read"
    ]
    assert missing_fields(plain) == [
        "the status subresource is missing in the installed CRD: status is not stored"
    ]
    assert missing_fields({}) == missing_fields(other)
