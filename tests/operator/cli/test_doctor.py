"""`cacheaware doctor`: what goes in, what comes out, and the exit code."""

import io
import json
import sys
from types import SimpleNamespace

import pytest
import yaml
from tests.operator.cli.conftest import ran
from tests.operator.doctor.workloads import body, engine, plain, sleep

from cacheaware.cli.doctor import reference

DEPLOYMENTS = ("apps", "v1", "deployments")
SHORT = plain(engine(sleep(5)), grace=30)
"""An engine that is aborted at SIGTERM."""


@pytest.fixture
def file(tmp_path):
    def write(*documents, name="m.yaml"):
        path = tmp_path / name
        path.write_text(yaml.safe_dump_all(documents))
        return str(path)

    return write


def ids(out):
    return [one["id"] for one in json.loads(out)["findings"]]


def test_the_json_keys_are_stable(file, capsys):
    code, out, _ = ran(capsys, "doctor", "-f", file(SHORT), "-o", "json")
    told = json.loads(out)
    assert code == 1
    assert set(told) == {"workloads", "findings"}
    assert set(told["findings"][0]) == {"id", "severity", "subject", "message", "fix"}
    assert told["findings"][0]["id"] == "engine-aborts"
    assert told["findings"][0]["subject"] == "deployment/chat"
    assert told["workloads"] == [
        {
            "subject": "deployment/chat",
            "container": "engine",
            "engine": "vllm",
            "loadSeconds": None,
            "longestRequestSeconds": None,
            "requests": None,
            "findings": len(told["findings"]),
        }
    ]


def test_the_table_says_what_and_how_to_mend_it(file, capsys):
    code, out, _ = ran(capsys, "doctor", "-f", file(SHORT), "--load-seconds", "40")
    assert code == 1
    assert out.startswith("deployment/chat: 1 error, 1 warning, 1 info; loads in 40 s\n")
    assert "error    engine-aborts\n         requests in flight are aborted at SIGTERM" in out
    assert "\n         Fix: run `cacheaware inject`" in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("documents", "fail_on", "code"),
    [
        ([body()], "error", 0),
        ([body()], "warning", 0),
        ([plain(engine(sleep(15), "lmsysorg/sglang:v0.5.3"))], "error", 0),
        ([plain(engine(sleep(15), "lmsysorg/sglang:v0.5.3"))], "warning", 1),
        ([SHORT], "error", 1),
    ],
)
def test_the_exit_code_is_for_findings_of_a_severity(documents, fail_on, code, file, capsys):
    assert ran(capsys, "doctor", "-f", file(*documents), "--fail-on", fail_on)[0] == code


def test_facts_told_by_hand_are_used(file, capsys):
    gpu = engine(resources={"limits": {"nvidia.com/gpu": "2"}}, livenessProbe={})
    args = ("--longest-request-seconds", "500", "--load-seconds", "40", "--node-gpus", "2:2")
    _, out, _ = ran(capsys, "doctor", "-f", file(body(gpu)), *args, "-o", "json")
    assert {"drain-too-short", "liveness-kills-loading", "surge-without-gpus"} <= set(ids(out))
    _, out, _ = ran(capsys, "doctor", "-f", file(body(gpu)), *args, "--node-gpus", "2")
    assert "requests take up to 500 s (p99.9)" in out
    assert "surge-without-gpus" not in out


def test_several_objects_in_a_file_are_told_apart(file, capsys):
    pdb = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "p"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "chat"}}},
    }
    front = plain({"name": "nginx", "image": "nginx:1"})
    front["metadata"]["name"] = "front"
    other = body(kind="StatefulSet")
    code, out, _ = ran(capsys, "doctor", "-f", file(pdb, front, body(), other))
    assert code == 0
    assert "deployment/front" not in out
    assert "\n\nstatefulset/chat: " in out
    assert out.count("pdb-blocks") == 2


def test_a_manifest_comes_over_standard_input(capsys, monkeypatch):
    stdin = SimpleNamespace(buffer=io.BytesIO(yaml.safe_dump(SHORT).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    code, out, _ = ran(capsys, "doctor", "-f", "-", "-o", "json")
    assert (code, ids(out)[0]) == (1, "engine-aborts")


def test_the_engine_can_be_named(file, capsys):
    manifest = plain({"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"})
    code, _, err = ran(capsys, "doctor", "-f", file(manifest))
    assert code == 2
    assert "which container is the engine can't be told; --container names one of a, b" in err
    code, out, _ = ran(capsys, "doctor", "-f", file(manifest), "--container", "b", "-o", "json")
    assert json.loads(out)["workloads"][0]["container"] == "b"
    code, _, err = ran(capsys, "doctor", "-f", file(manifest), "--container", "c")
    assert (code, err) == (
        2, "cacheaware: deployment/chat: the container is 'c': allowed are a, b\n",
    )  # fmt: skip


def test_of_several_inputs_the_good_ones_are_answered(file, capsys):
    code, out, err = ran(
        capsys, "doctor", "-f", "none.yaml", "-f", file(body()), "-o", "json"
    )  # fmt: skip
    assert code == 2
    assert err == "cacheaware: none.yaml: can't be read: No such file or directory\n"
    assert len(json.loads(out)["workloads"]) == 1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "nothing to look at"),
        (("job/x",), "the workload is 'job/x': allowed are deployment/NAME"),
        (("chat",), "the workload is 'chat'"),
        (("deploy/",), "the workload is 'deploy/'"),
        (("deploy/../x",), "the workload is 'deploy/../x'"),
        (("deploy/x", "-n", "a/b"), "the namespace is 'a/b'"),
        (("deploy/x", "--node-gpus", "many"), "--node-gpus is 'many': allowed is ALLOCATABLE"),
        (("deploy/x", "--load-seconds", "-1"), "--load-seconds"),
        (("deploy/x", "--fail-on", "info"), "--fail-on"),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line(args, says, capsys):
    code, _, err = ran(capsys, "doctor", *args)
    assert code == 2
    assert says in err
    assert err.count("\n") == 1


def pod_spec(containers, meta="{}"):
    """A manifest whose fields need not have the right types."""
    spec = f"spec: {{template: {{spec: {{containers: {containers}}}}}}}"
    return f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {meta}\n{spec}\n".encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a: [", "is no YAML"),
        (b"\xff\xfe\x00", "is no text in UTF-8"),
        (b"kind: Service\n", "holds no workload with an engine"),
        (b"", "holds no workload with an engine"),
        (pod_spec("[]", meta="x"), "cacheaware: "),
        (pod_spec("[x]"), "cacheaware: "),
        (pod_spec("[{name: e, lifecycle: x}]"), "containers[0].lifecycle is 'x': allowed is a"),
        (pod_spec("[{name: e, resources: x}]"), "containers[0].resources is 'x': allowed is a"),
        (pod_spec("[{resources: x}]") + b"---\n" + pod_spec("[]"), "containers[0].name is None"),
        (
            pod_spec("[{name: e}]") + b"---\nkind: PodDisruptionBudget\nspec: {selector: 5}\n"
            b"metadata: x\n",
            "a field of an object beside it has the wrong type",
        ),
        (b"a: {{ .Values.x }}", "render it first"),
        (pod_spec("[]"), "--container names one of none"),
    ],
)
def test_a_file_that_is_no_manifest_is_one_line(content, says, tmp_path, capsys):
    path = tmp_path / "m.yaml"
    path.write_bytes(content)
    code, _, err = ran(capsys, "doctor", "-f", str(path))
    assert code == 2
    assert says in err
    assert err.count("\n") == 1


def test_a_bad_workload_of_a_file_does_not_hold_back_the_others(file, capsys):
    bad = plain(engine(image="x:1"))
    bad["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = "600"
    code, out, err = ran(capsys, "doctor", "-f", file(bad, body()), "-o", "json")
    assert code == 2
    assert "terminationGracePeriodSeconds is '600': allowed is a whole number" in err
    assert len(json.loads(out)["workloads"]) == 1


def test_a_named_container_chooses_among_the_workloads_of_a_file(file, capsys):
    other = plain({"name": "router", "image": "x:1"})
    path = file(other, body())
    code, out, err = ran(capsys, "doctor", "-f", path, "--container", "engine", "-o", "json")
    assert (code, err) == (0, "")
    assert [one["container"] for one in json.loads(out)["workloads"]] == ["engine"]
    code, _, err = ran(capsys, "doctor", "-f", path, "--container", "c")
    assert code == 2
    assert err == f"cacheaware: {path}: no workload in it has a container 'c'\n"


def test_what_no_encoding_holds_is_shown_all_the_same(tmp_path, capsys):
    path = tmp_path / "m.yaml"
    path.write_bytes(pod_spec("[{name: e}]", meta='{name: "a\\ud800"}'))
    code, out, _ = ran(capsys, "doctor", "-f", str(path))
    assert code == 1
    assert "deployment/a\\ud800" in out


def test_a_file_without_end_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("cacheaware.cli.manifest_files.LARGEST", 5)
    path = tmp_path / "m.yaml"
    path.write_text("a: 12345")
    code, _, err = ran(capsys, "doctor", "-f", str(path))
    assert code == 2
    assert "is larger than 5 bytes" in err


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("deploy/a", ("Deployment", "a")),
        ("Deployment.apps/a", ("Deployment", "a")),
        ("sts/a-1", ("StatefulSet", "a-1")),
        ("lws/a", ("LeaderWorkerSet", "a")),
    ],
)
def test_workloads_are_named_as_kubectl_names_them(text, found):
    assert reference(text) == found


def test_a_workload_of_the_cluster_is_examined(cluster, capsys):
    cluster(DEPLOYMENTS, body(replicas=2))
    code, out, _ = ran(capsys, "doctor", "deploy/chat", "-o", "json")
    assert code == 0
    assert "pdb-missing" in ids(out)
    assert "not-checked" not in ids(out)
    code, _, err = ran(capsys, "doctor", "sts/chat")
    assert (code, err) == (2, "cacheaware: no StatefulSet 'chat' in namespace 'demo'\n")


def test_a_manifest_and_a_cluster_go_together(cluster, file, capsys):
    hpa = {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "namespace": "demo"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "chat"}},
    }  # fmt: skip
    cluster(("autoscaling", "v2", "horizontalpodautoscalers"), hpa)
    scaler = {
        "apiVersion": "cacheaware.dev/v1alpha1", "kind": "CacheAwareScaler",
        "metadata": {"name": "c"},
        "spec": {"mode": "Scale", "scaleTargetRef": {"kind": "Deployment", "name": "chat"}},
    }  # fmt: skip
    args = ("doctor", "-f", file(body(), scaler), "-o", "json")
    _, out, _ = ran(capsys, *args, "--context", "x")
    assert "two-scalers" in ids(out)
    assert "not-checked" not in ids(out)
    _, out, _ = ran(capsys, *args)
    assert "not-checked" in ids(out)


def test_an_object_of_the_file_replaces_the_clusters_of_the_same_name():
    from cacheaware.cli.doctor import joined
    from cacheaware.doctor.facts import Facts

    old, kept, new = (
        {"metadata": {"name": n}, "at": at} for n, at in [("a", 1), ("b", 1), ("a", 2)]
    )
    found = joined(Facts(budgets=(old, kept), vertical=(old,)), Facts(budgets=(new,)))
    assert found.budgets == (kept, new)
    assert found.vertical == (old,)
    assert joined(Facts(), Facts(scalers=(new,))).scalers == (new,)
