"""`cacheaware inject`."""

import io
import sys

import pytest
from ruamel.yaml import YAML
from tests.operator.cli.conftest import example, ran

from cacheaware import cli

ENGINE = """\
# ours
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  selector: {{matchLabels: {{app: x}}}}
  template:
    metadata: {{labels: {{app: x}}}}
    spec:
      containers:
        - name: engine
          image: {image}
"""
CHAT = ENGINE.format(name="chat", image="vllm/vllm-openai:v0.18.0")
OTHER = ENGINE.format(name="redis", image="docker.io/library/redis:8")


@pytest.fixture
def run(capsys):
    def call(*args):
        with pytest.raises(SystemExit) as ended:
            cli.main(["inject", *map(str, args)])
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return call


@pytest.fixture
def chat(tmp_path):
    path = tmp_path / "chat.yaml"
    path.write_text(CHAT)
    return path


def objects(text):
    return list(YAML(typ="safe", pure=True).load_all(text))


def sidecar(body):
    return body["spec"]["template"]["spec"]["initContainers"][-1]


def test_it_prints_the_changed_manifest_and_leaves_the_file(run, chat):
    code, out, err = run("-f", chat)

    assert (code, err) == (0, "")
    assert sidecar(objects(out)[0])["name"] == "cacheaware"
    assert out.startswith("# ours\n")
    assert chat.read_text() == CHAT


def test_what_it_prints_can_be_given_to_it_again(run, chat):
    _, once, _ = run("-f", chat)
    chat.write_text(once)

    assert run("-f", chat) == (0, once, "")
    assert run("-f", chat, "--remove") == (0, CHAT, "")


def test_it_writes_files_in_place_and_keeps_their_mode(run, chat):
    chat.chmod(0o640)

    assert run("-i", "-f", chat) == (0, "", "")
    assert sidecar(objects(chat.read_text())[0])
    assert chat.stat().st_mode & 0o777 == 0o640
    written = chat.stat().st_mtime_ns
    assert run("-i", "-f", chat)[0] == 0
    assert chat.stat().st_mtime_ns == written, "nothing changed, nothing written"
    assert run("-i", "-f", chat, "--remove")[0] == 0
    assert chat.read_text() == CHAT


def test_a_link_stays_a_link(run, chat):
    link = chat.with_name("link.yaml")
    link.symlink_to(chat)
    run("-i", "-f", link)

    assert link.is_symlink()
    assert "initContainers" in chat.read_text()


def test_a_file_that_can_not_be_written_is_said(run, chat, monkeypatch):
    monkeypatch.setattr(
        "pathlib.Path.write_bytes", lambda *_: (_ for _ in ()).throw(OSError("full"))
    )

    code, _, err = run("-i", "-f", chat)
    assert (code, err) == (2, f"cacheaware: {chat}: can't be written: full\n")


def test_it_reads_standard_input(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CHAT.encode())))
    code, out, _ = run("-f", "-")

    assert code == 0
    assert "initContainers" in out


def test_options_reach_the_sidecar(run, chat):
    _, out, _ = run(
        "-f", chat, "--image", "mirror/sidecar:1", "--port", "9500", "--grace", "600",
        "--operator-account", "system:serviceaccount:a:b", "--env", "CACHEAWARE_WARMUP=off",
        "--hook", "exec", "--gate-engine", "--mesh", "--project-token",
    )  # fmt: skip
    body = objects(out)[0]
    made = sidecar(body)
    env = {one["name"]: one.get("value") for one in made["env"]}
    pod = body["spec"]["template"]

    assert made["image"] == "mirror/sidecar:1"
    assert env["CACHEAWARE_PORT"] == "9500"
    assert env["CACHEAWARE_OPERATOR_ACCOUNT"] == "system:serviceaccount:a:b"
    assert env["CACHEAWARE_WARMUP"] == "off"
    assert "CACHEAWARE_TOKEN_DIR" in env
    assert pod["spec"]["terminationGracePeriodSeconds"] == 600
    assert pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]["port"] == 9500
    assert "9500" in pod["metadata"]["annotations"].values()


def test_the_image_is_that_of_this_release(run, chat):
    _, out, _ = run("-f", chat)

    repository, _, tag = sidecar(objects(out)[0])["image"].rpartition(":")
    assert repository == "docker.io/cacheaware/sidecar"
    assert tag[0].isdigit()


def test_of_several_files_the_good_ones_are_answered(run, chat, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("a: [1\n")
    service = tmp_path / "service.yaml"
    service.write_text("kind: Service\napiVersion: v1\n")
    code, out, err = run("-f", bad, "-f", chat, "-f", service, "-f", tmp_path / "none")

    assert code == 2
    assert len(objects(out)) == 1
    first, second, third = err.splitlines()
    assert first.startswith(f"cacheaware: {bad}: is no YAML: ")
    assert second.endswith(
        "holds no workload: allowed are Deployment, StatefulSet and LeaderWorkerSet"
    )
    assert third == f"cacheaware: {tmp_path / 'none'}: can't be read: No such file or directory"


def test_several_files_become_one_stream(run, chat, tmp_path):
    second = tmp_path / "second.yaml"
    second.write_text("---\n" + CHAT.replace("chat", "second").rstrip())
    third = tmp_path / "third.yaml"
    third.write_text(CHAT.replace("chat", "third"))
    code, out, _ = run("-f", chat, "-f", second, "-f", third)

    assert code == 0
    assert [one["metadata"]["name"] for one in objects(out)] == ["chat", "second", "third"]


def test_workloads_beside_the_engines_are_left_alone_and_said(run, chat):
    chat.write_text(f"{CHAT}---\n{OTHER}")
    code, out, err = run("-f", chat)

    assert code == 0
    assert out.endswith(OTHER)
    assert err.startswith("cacheaware: deployment/redis: left alone: no engine is known in it;")


def test_the_container_that_is_named_is_the_engine(run, chat):
    two = OTHER + OTHER.replace("redis", "b").partition("containers:\n")[2]
    chat.write_text(two.replace("name: engine", "name: main", 1))
    code, out, err = run("-f", chat)

    assert (code, out) == (2, chat.read_text())
    assert "--container names one of main, engine" in err
    assert run("-f", chat, "--container", "main")[0] == 0


def test_a_file_without_any_engine_is_bad(run, chat):
    chat.write_text(f"{OTHER}---\n{OTHER.replace('redis', 'b')}")
    code, out, err = run("-f", chat)

    assert (code, out) == (2, "")
    assert "name its --container" in err
    assert run("-f", chat, "--container", "engine")[0] == 0


def test_a_template_of_helm_is_bad(run, chat):
    chat.write_text(CHAT + "---\nreplicas: {{ .Values.replicas }}\n")

    code, out, err = run("-f", chat)
    assert (code, out) == (2, "")
    assert "render it first, for example by helm template" in err


def test_an_anchor_that_ties_values_leaves_the_workload_alone(run, chat):
    chat.write_text(
        CHAT
        + "          volumeMounts: &m [{name: v, mountPath: /v}]\n"
        + "        - {name: b, image: x, volumeMounts: *m}\n"
    )
    code, out, err = run("-f", chat)

    assert (code, out) == (2, chat.read_text())
    assert "deployment/chat: left alone: the anchor &m stands for a value" in err


def test_a_malformed_workload_is_left_alone_and_the_good_one_answered(run, chat):
    bad = OTHER.replace("          image: docker.io/library/redis:8", "          args: --port=1")
    chat.write_text(f"{bad}---\n{CHAT}")
    code, out, err = run("-f", chat)

    assert code == 2
    assert out.startswith(bad)
    assert sidecar(objects(out)[1])
    assert err == (
        "cacheaware: deployment/redis: left alone: spec.template.spec.containers[0].args is"
        " '--port=1': allowed is a list\n"
    )


@pytest.mark.parametrize("items", ["", "x", "[]", "[x, {kind: Service}]"])
def test_a_list_without_workloads_is_bad(run, chat, items):
    chat.write_text(f"apiVersion: v1\nkind: List\nitems: {items}\n")

    assert run("-f", chat)[0] == 2


def test_the_policy_is_printed_alone(run, chat):
    code, out, _ = run(
        "-f", chat, "--network-policy", "--operator-account", "system:serviceaccount:a:b"
    )
    (policy,) = objects(out)

    assert code == 0
    assert policy["kind"] == "NetworkPolicy"
    assert "it isolates them" in out
    assert "kubernetes.io/metadata.name: a\n" in out


def test_what_is_too_large_or_no_text_is_bad(run, chat, monkeypatch):
    chat.write_bytes(b"\xff\xfe")
    assert run("-f", chat)[2] == f"cacheaware: {chat}: is no text in UTF-8\n"

    monkeypatch.setattr("cacheaware.cli.manifest_files.LARGEST", 10)
    chat.write_text(CHAT)
    assert run("-f", chat)[2] == f"cacheaware: {chat}: is larger than 10 bytes\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--env", "FOO=1"], "--env is 'FOO=1': allowed is NAME=VALUE with a setting"),
        (["--env", "CACHEAWARE_WARMUP"], "allowed is NAME=VALUE"),
        (["--env", "CACHEAWARE_WARMUP=maybe"], "CACHEAWARE_WARMUP: 'maybe' is not allowed"),
        (["--env", "CACHEAWARE_GRACE_SECONDS=9"], "inject sets that itself; use --grace"),
        (["--env", "CACHEAWARE_POD_UID=9"], "inject sets that itself"),
        (["--operator-account", "cacheaware"], "allowed is system:serviceaccount:NAMESPACE:NAME"),
        (["--mount", "models"], "allowed is VOLUME:/PATH"),
        (["--write", "--network-policy"], "--write changes files"),
        (["--grace", "0"], "--grace"),
        (["--hook", "sleep"], "--hook"),
    ],
)
def test_options_that_are_not_allowed_are_refused(run, chat, args, said):
    code, out, err = run("-f", chat, *args)

    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_mount_may_be_given(run, chat):
    chat.write_text(CHAT + "      volumes: [{name: models, emptyDir: {}}]\n")
    code, out, _ = run("-f", chat, "--mount", "models:/etc/model")

    assert code == 0
    assert "mountPath: /etc/model" in out


def test_settings_that_depend_on_each_other_are_judged_together(run, chat):
    relief, abort = ["--env", "CACHEAWARE_RELIEF=on"], ["--env", "CACHEAWARE_RELIEF_ABORT=on"]
    code, out, _ = run("-f", str(chat), *relief, *abort)
    assert code == 0
    assert "name: CACHEAWARE_RELIEF_ABORT" in out
    _, _, err = run("-f", str(chat), *abort)
    assert "CACHEAWARE_RELIEF_ABORT: on is not allowed while CACHEAWARE_RELIEF is off" in err


def test_a_canary_of_a_mounted_baseline_is_passed_on(run, chat):
    every = ["--env", "CACHEAWARE_CANARY_SECONDS=600"]
    file = ["--env", "CACHEAWARE_CANARY_FILE=/canary/canary.json"]
    code, out, _ = run("-f", str(chat), *every, *file)
    assert code == 0
    assert "name: CACHEAWARE_CANARY_FILE" in out
    _, _, err = run("-f", str(chat), *file)
    assert "without CACHEAWARE_CANARY_SECONDS" in err
    _, _, err = run("-f", str(chat), "--env", "CACHEAWARE_CANARY_SECONDS=5")
    assert "allowed: an integer from 60 to 86400" in err


def test_the_example_of_the_help_runs(chat, capsys, monkeypatch):
    monkeypatch.chdir(chat.parent)
    assert ran(capsys, *example("inject"))[0] == 0
