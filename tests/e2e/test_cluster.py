"""The cluster itself and the images on it: what every other end-to-end test stands on."""

import json
import re
from typing import Any

import pytest
import yaml
from tests.e2e.real_cluster import RealCluster

pytestmark = pytest.mark.e2e

OPERATOR, SIDECAR, MOCK = (
    f"docker.io/cacheaware/{name}:dev" for name in ("operator", "sidecar", "mock-engine")
)
LOCKED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}
SERVE = (
    "from http.server import *; HTTPServer(('', 8000), SimpleHTTPRequestHandler).serve_forever()"
)
NAMES_AND_VERSION = """
import json, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
request = urllib.request.Request("https://kubernetes.default.svc/version")
request.add_header("Authorization", "Bearer " + open(folder + "/token").read())
context = ssl.create_default_context(cafile=folder + "/ca.crt")
print(json.load(urllib.request.urlopen(request, context=context, timeout=10))["gitVersion"])
"""


def pod(name: str, image: str, *command: str, **spec: Any) -> dict[str, Any]:
    """A pod of one image, locked as the chart locks it."""
    container = {"name": "main", "image": image, "securityContext": LOCKED}
    container |= {"imagePullPolicy": "Never"} | ({"command": list(command)} if command else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def output(cluster: RealCluster, namespace: str, image: str, *command: str) -> str:
    """What a command in an image prints, when it has ended well."""
    name = f"run-{abs(hash((image, command))) % 10**8}"
    cluster.kubectl(
        "-n", namespace, "apply", "-f", "-", input=yaml.dump(pod(name, image, *command))
    )
    cluster.kubectl(
        "-n", namespace, "wait", f"pod/{name}", "--timeout=60s",
        "--for=jsonpath={.status.containerStatuses[0].state.terminated.reason}",
    )  # fmt: skip
    log = cluster.kubectl("-n", namespace, "logs", name)
    got = json.loads(cluster.kubectl("-n", namespace, "get", "pod", name, "-o", "json"))
    assert got["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0, log
    return log


@pytest.mark.parametrize(
    ("image", "package", "absent"),
    [
        (SIDECAR, "cacheaware_sidecar", ("cacheaware", "kopf", "aiohttp", "typer", "pip")),
        (OPERATOR, "cacheaware.controller", ("cacheaware_sim", "pip")),
        (MOCK, "cacheaware_sim", ("kopf", "kubernetes", "pip")),
    ],
    ids=["sidecar", "operator", "mock-engine"],
)
def test_an_image_runs_unprivileged_and_holds_only_what_it_needs(
    cluster: RealCluster, namespace: str, image: str, package: str, absent: tuple[str, ...]
):
    code = (
        "import importlib, importlib.util, os; "
        f"importlib.import_module({package!r}); "
        f"print(os.getuid(), [n for n in {absent!r} if importlib.util.find_spec(n)])"
    )
    assert output(cluster, namespace, image, "python3", "-c", code).strip() == "65532 []"


@pytest.mark.parametrize(
    ("image", "command"),
    [
        (OPERATOR, ("cacheaware", "--help")),
        (MOCK, ("python3", "-m", "cacheaware_sim", "serve", "--help")),
        (SIDECAR, ("cacheaware-sidecar", "--help")),
    ],
    ids=["operator", "mock-engine", "sidecar"],
)
def test_the_entry_point_of_an_image_is_there(
    cluster: RealCluster, namespace: str, image: str, command: tuple[str, ...]
):
    assert "Usage" in output(cluster, namespace, image, *command).replace("usage", "Usage")


def test_a_pod_reaches_the_api_server_by_its_name(cluster: RealCluster, namespace: str):
    version = output(cluster, namespace, SIDECAR, "python3", "-c", NAMES_AND_VERSION).strip()
    assert re.fullmatch(r"v1\.\d+\.\d+.*", version)


def test_a_service_is_reached_by_its_name_and_by_its_address(cluster: RealCluster, namespace: str):
    server = pod("server", MOCK, "python3", "-c", SERVE, terminationGracePeriodSeconds=0)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "server"},
        "spec": {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8000}]},
    }
    objects = yaml.dump_all([server, service])
    cluster.kubectl("-n", namespace, "apply", "-f", "-", input=objects)
    cluster.kubectl("-n", namespace, "wait", "pod/server", "--for=condition=Ready", "--timeout=60s")
    address = cluster.kubectl(
        "-n", namespace, "get", "service", "server", "-o", "jsonpath={.spec.clusterIP}"
    )
    code = (
        "import time, urllib.request\n"
        "def status(host):\n"
        "    for attempt in range(40):\n"  # kube-proxy needs a moment after Ready
        "        try:\n"
        "            return urllib.request.urlopen('http://' + host, timeout=2).status\n"
        "        except OSError as error:\n"
        "            last = error; time.sleep(0.25)\n"
        "    raise last\n"
        f"print(status('server'), status('server.{namespace}.svc'), status('{address}'))"
    )
    assert output(cluster, namespace, SIDECAR, "python3", "-c", code).split() == ["200"] * 3


def test_a_name_that_is_not_the_clusters_does_not_exist(cluster: RealCluster, namespace: str):
    if cluster.way != "source":
        pytest.skip("kind asks the name servers of the machine")
    code = (
        "import socket\n"
        "try: socket.getaddrinfo('no-such-name.example', 80); print('found')\n"
        "except socket.gaierror as error: print(error.errno == socket.EAI_NONAME)"
    )
    assert output(cluster, namespace, SIDECAR, "python3", "-c", code).strip() == "True"


def test_helm_is_3_17_or_later(cluster: RealCluster):
    major, minor = re.findall(r"\d+", cluster.helm("version", "--template", "{{.Version}}"))[:2]
    assert (int(major), int(minor)) >= (3, 17)
