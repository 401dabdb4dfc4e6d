"""Later runs, what users change in between, and the way out."""

import pytest
from tests.operator.inject.workloads import (
    FOLDER,
    SCRIPT,
    Result,
    deployment,
    engine,
    group,
    refusal,
)

from cacheaware.inject.network_policy import network_policy
from cacheaware.inject.record import ANNOTATION, RecordError, record_of
from cacheaware.inject.removal import removed


def test_a_sidecar_by_hand_is_left_alone_until_it_is_taken_out():
    ours = {
        "name": "cacheaware",
        "image": "docker.io/cacheaware/sidecar:dev",
        "volumeMounts": [
            {"name": "shared", "mountPath": FOLDER},
            {"name": "config", "mountPath": "/etc/m"},
        ],
    }
    own = engine(
        lifecycle={"preStop": SCRIPT}, volumeMounts=[{"name": "shared", "mountPath": FOLDER}]
    )
    volumes = [{"name": "shared", "emptyDir": {}}, {"name": "config", "configMap": {"name": "m"}}]
    body = deployment(own, initContainers=[ours], volumes=volumes)

    assert "inject --remove first" in refusal(body)
    assert removed(body) == deployment()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (deployment(volumes=[{"name": "cacheaware-token"}], automountServiceAccountToken=False),
         "a volume cacheaware-token of its own"),
        (deployment(engine(volumeMounts=[{"name": "x", "mountPath": FOLDER + "/"}])),
         "a mount of its own"),
    ],
)  # fmt: skip
def test_names_and_paths_that_are_taken_are_refused(body, said):
    assert said in refusal(body)


def test_what_a_user_adds_to_the_sidecar_stays():
    made = Result(deployment())
    made.sidecar["env"].insert(0, {"name": "HTTPS_PROXY", "value": "http://proxy"})
    made.sidecar["volumeMounts"].append({"name": "ca", "mountPath": "/etc/ca"})
    made.sidecar["resources"] = {"limits": {"memory": "1Gi"}}
    made.sidecar["imagePullPolicy"] = "Always"
    made.spec["volumes"].append({"name": "ca", "configMap": {"name": "ca"}})
    again = Result(made.body)

    assert again.body == made.body


def test_what_inject_wrote_is_brought_up_to_date():
    made = Result(deployment(), image="old:1", env={"CACHEAWARE_WARMUP": "off"})
    made.engine["args"] += ["--max-model-len=1000"]
    again = Result(made.body, image="new:2")

    assert again.sidecar["image"] == "new:2"
    assert again.env["MAX_MODEL_LENGTH"] == "1000"
    assert again.env["WARMUP"] == "off"

    again.engine["args"].pop()
    assert "MAX_MODEL_LENGTH" not in Result(again.body).env


def test_a_grace_period_that_somebody_raises_later_stays():
    made = Result(deployment())
    made.spec["terminationGracePeriodSeconds"] = 900

    assert Result(made.body).env["GRACE_SECONDS"] == "900"
    assert removed(made.body)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 900


def test_empty_lists_come_back_empty():
    body = deployment(engine(volumeMounts=[], lifecycle={}), volumes=[], initContainers=None)
    body["metadata"]["annotations"] = {}

    assert removed(Result(body).body) == body


def test_a_null_comes_back_as_it_was():
    body = deployment(engine(lifecycle={"preStop": None}), terminationGracePeriodSeconds=None)

    assert removed(Result(body).body) == body
    assert removed(Result(Result(body).body).body) == body


def test_a_workload_without_metadata_is_served_too():
    body = deployment()
    del body["metadata"]
    del body["spec"]["template"]["metadata"]

    assert removed(Result(body, mesh=True).body) == body


@pytest.mark.parametrize("text", ["{", "[]", '{"was": 1}', '{"other": {}}', '"x"'])
def test_a_record_that_somebody_changed_is_refused(text):
    body = deployment()
    body["metadata"]["annotations"] = {ANNOTATION: text}

    with pytest.raises(RecordError, match=ANNOTATION):
        record_of(body)


def test_the_policy_lets_the_operator_in_and_nobody_else():
    made = Result(deployment(), operator_account="system:serviceaccount:scalers:cas", port=9500)
    policy = network_policy(made.body)
    (rule,) = policy["spec"]["ingress"]

    assert policy["spec"]["podSelector"] == {"matchLabels": {"app": "chat"}}
    assert rule["ports"] == [{"port": 9500, "protocol": "TCP"}]
    where = rule["from"][0]["namespaceSelector"]["matchLabels"]
    assert where == {"kubernetes.io/metadata.name": "scalers"}
    assert network_policy(deployment()) is None


def test_the_policy_of_a_group_selects_by_its_name():
    body = group()
    body["metadata"]["namespace"] = "models"
    policy = network_policy(Result(body).body)

    assert policy["metadata"]["namespace"] == "models"
    (label,) = policy["spec"]["podSelector"]["matchLabels"].items()
    assert label == ("leaderworkerset.sigs.k8s.io/name", "group")


def test_a_probe_or_a_hook_that_somebody_changed_since_stays():
    made = Result(deployment(), gate_engine=True, hook="http")
    own = {"httpGet": {"path": "/mine", "port": 1}}
    made.engine["readinessProbe"], made.engine["lifecycle"]["preStop"] = own, own
    made.engine["args"].remove("--shutdown-timeout=130")
    left = removed(made.body)["spec"]["template"]["spec"]["containers"][0]

    assert left["readinessProbe"] == left["lifecycle"]["preStop"] == own
    assert left["args"] == ["--model", "m"]


def test_a_mesh_annotation_that_somebody_removed_stays_away():
    made = Result(deployment(), mesh=True)
    made.workload.template["metadata"]["annotations"].clear()

    assert removed(made.body) == deployment()
