"""What `cacheaware inject` prints is taken by a real API server, also where `restricted` holds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.e2e.workload import eventually

from cacheaware.workload.template import workload_of

pytestmark = pytest.mark.e2e
MANIFESTS = Path(__file__).parents[1] / "operator" / "inject" / "manifests"
NAMES = sorted(path.name for path in MANIFESTS.iterdir())
IMAGE = "docker.io/cacheaware/sidecar:dev"
RESTRICTED = "07-restricted.yaml"
BY_NATURE_NOT = {"08-host-network.yaml"}
"""What uses the node's network or folders is never `restricted`."""


def cacheaware(*args: str, text: str | None = None) -> str:
    """The command as users run it; it must end well."""
    argv = [sys.executable, "-c", "from cacheaware.cli import main; main()", *args]
    done = subprocess.run(
        argv, input=text, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def injected(name: str, *options: str) -> str:
    return cacheaware("inject", "-f", str(MANIFESTS / name), "--image", IMAGE, *options)


def objects(text: str) -> list[dict]:
    found = list(yaml.safe_load_all(text))
    return [one for body in found for one in body.get("items", [body])]


def leader(body: dict) -> dict:
    """The pod of a group's leader: the API server of a plain cluster knows no groups."""
    return {"apiVersion": "v1", "kind": "Pod", **workload_of(body).template} | {
        "metadata": {"name": "leader"}
    }


@pytest.fixture
def restricted(cluster, namespace):
    """A namespace that enforces the Pod Security Standard `restricted`."""
    label = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", namespace, label)
    return namespace


@pytest.mark.parametrize("name", NAMES)
def test_the_api_server_takes_what_inject_prints(cluster, namespace, name):
    bodies = [
        leader(one) if one["kind"] == "LeaderWorkerSet" else one for one in objects(injected(name))
    ]
    for body in bodies:
        body["metadata"]["namespace"] = namespace
        cluster.kubectl(
            "create", "--dry-run=server", "--validate=strict", "-f", "-", input=json.dumps(body)
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_second_run_changes_nothing_and_the_doctor_is_content(tmp_path, name):
    path = tmp_path / name
    path.write_text(injected(name))

    cacheaware("doctor", "-f", str(path), "--fail-on", "warning")
    assert cacheaware("inject", "-f", str(path)) == path.read_text()
    assert cacheaware("inject", "-f", str(path), "--remove") == (MANIFESTS / name).read_text()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BY_NATURE_NOT])
def test_the_sidecar_breaks_no_rule_of_restricted(cluster, restricted, name):
    """The API server judges the pod with the sidecar alone beside an engine that breaks none."""
    for body in objects(injected(name)):
        workload = workload_of(body)
        if workload is None or not workload.sidecars:
            continue
        pod = leader(body)
        pod["metadata"] = {"name": "judged", "namespace": restricted}
        made = workload.sidecars[-1]
        kept = {one["name"] for one in made["volumeMounts"]}
        volumes = [one for one in workload.spec["volumes"] if one["name"] in kept]
        hook = {"exec": {"command": ["true"]}}
        bare = {**made, "name": "engine", "lifecycle": {"preStop": hook}}
        for key in ("restartPolicy", "ports", "readinessProbe", "livenessProbe"):
            bare.pop(key, None)
        pod["spec"] = {"initContainers": [made], "containers": [bare], "volumes": volumes}
        cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(pod))


def test_an_injected_engine_serves_warm_drains_and_goes(cluster, restricted):
    """The whole way, where `restricted` holds and no token is mounted."""
    kubectl = lambda *args, **more: cluster.kubectl("-n", restricted, *args, **more)  # noqa: E731
    kubectl("apply", "-f", "-", input=injected(RESTRICTED))
    kubectl("rollout", "status", "deployment/restricted", "--timeout=120s")
    (pod,) = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
    name = pod["metadata"]["name"]

    ask = (
        "import json,urllib.request as u;"
        "s=json.load(u.urlopen('http://127.0.0.1:9440/v1/state'));"
        "print(s['phase'], s['warmup']['verdict'])"
    )
    state = kubectl("exec", name, "-c", "engine", "--", "python3", "-c", ask)
    assert state.split() == ["serving", "Warm"]
    assert pod["status"]["qosClass"] == "Burstable"

    kubectl("apply", "-f", "-", input=cacheaware("inject", "-f", "-", text=injected(RESTRICTED)))
    (same,) = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
    assert same["metadata"]["uid"] == pod["metadata"]["uid"], "a second run rolls nothing"

    kubectl("delete", "deployment", "restricted", "--wait=false")
    eventually(
        lambda: not json.loads(kubectl("get", "pods", "-o", "json"))["items"],
        within=60,
        what="an idle pod drains and is gone long before its grace period",
    )


def test_the_policy_is_taken_too(cluster, namespace):
    policy = injected(RESTRICTED, "--network-policy")

    cluster.kubectl("-n", namespace, "create", "--dry-run=server", "-f", "-", input=policy)
