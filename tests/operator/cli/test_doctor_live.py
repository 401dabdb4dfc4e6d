"""`cacheaware doctor pod/NAME` and the pods of a workload: two looks through the API server."""

import json

import pytest
from aiohttp import web
from tests.operator.cli.conftest import ran
from tests.operator.doctor.workloads import body
from tests.operator.fake_api import failure
from tests.sidecar.health.pages import AFTER, BEFORE, page

DEPLOYMENTS, PODS = ("apps", "v1", "deployments"), ("", "v1", "pods")


def pod(name):
    return {
        "metadata": {"name": name, "namespace": "demo", "labels": {"app": "chat"}},
        "spec": {"nodeName": "n", "containers": [
            {"name": "engine", "ports": [{"name": "http", "containerPort": 8123}]}]},
        "status": {"phase": "Running"},
    }  # fmt: skip


@pytest.fixture
def pods(cluster):
    """Pods by name, each with its pages in the order in which they are asked for."""

    def put(**pages):
        left = {name.replace("_", "-"): list(each) for name, each in pages.items()}
        for name in left:
            cluster(PODS, pod(name))
        asked = []

        async def answer(request):
            asked.append(request.path)
            own = left[request.path.split("/pods/")[1].split(":")[0]]
            content = own.pop(0) if len(own) > 1 else own[0]
            if content is None:
                return failure(503, "ServiceUnavailable", "connection refused")
            return web.Response(body=content)

        cluster.api.proxied = answer
        return asked

    return put


WELL = (page(BEFORE), page(AFTER))
STORM = (page(BEFORE), page(AFTER | {"num_preemptions_total": 1240}))
CORRUPTED = (page(BEFORE), page(AFTER | {"corrupted_requests_total": 7}))


def findings(out):
    return {(one["id"], one["subject"]) for one in json.loads(out)["findings"]}


def test_a_pod_is_looked_at_twice_at_the_port_that_it_names(pods, capsys):
    asked = pods(chat_1=STORM)
    code, out, _ = ran(capsys, "doctor", "pod/chat-1", "--seconds", "0.1", "-o", "json")
    assert code == 1
    assert findings(out) >= {("preemption-storm", "pod/chat-1")}
    assert asked == ["/api/v1/namespaces/demo/pods/chat-1:8123/proxy/metrics"] * 2
    told = json.loads(out)["looks"][0]
    assert 0.1 <= told["seconds"] < 5.0


def test_the_sick_pod_of_a_deployment_is_named(cluster, pods, capsys):
    cluster(DEPLOYMENTS, body(replicas=3))
    pods(chat_1=WELL, chat_2=WELL, chat_3=CORRUPTED)
    _, out, _ = ran(capsys, "doctor", "deploy/chat", "--seconds", "0.1", "-o", "json")
    errors = {one["subject"]: one["id"] for one in json.loads(out)["findings"]
              if one["id"] == "corrupted-requests"}  # fmt: skip
    assert errors == {"pod/chat-3": "corrupted-requests"}
    assert [one["subject"] for one in json.loads(out)["looks"]] == [
        "pod/chat-1", "pod/chat-2", "pod/chat-3",
    ]  # fmt: skip
    assert json.loads(out)["workloads"][0]["subject"] == "deployment/chat"


def test_a_pod_that_does_not_answer_is_told_and_spoils_only_itself(cluster, pods, capsys):
    cluster(DEPLOYMENTS, body(replicas=2))
    pods(chat_1=STORM, chat_2=(None,))
    _, out, _ = ran(capsys, "doctor", "deploy/chat", "--seconds", "0.1")
    assert "pod/chat-2: 1 info\ninfo     page-unread\n" in out
    assert "error    preemption-storm" in out


def test_a_pod_that_answers_the_second_time_only_is_judged_by_that_page(pods, capsys):
    pods(chat_1=(None, page(AFTER | {"num_preemptions_total": 9000})))
    code, out, _ = ran(capsys, "doctor", "pod/chat-1", "--seconds", "0.1", "-o", "json")
    assert code == 0
    assert json.loads(out)["looks"][0]["seconds"] is None


def with_sidecar(pods_seen, *, pages, state):
    """A pod whose sidecar tells this state; None for one that is silent."""

    async def answer(request):
        if request.path.endswith("/v1/state"):
            if state is None:
                return failure(503, "ServiceUnavailable", "connection refused")
            return web.json_response(state)
        return web.Response(body=pages[0])

    one = pod("chat-1")
    one["spec"]["initContainers"] = [
        {
            "name": "cacheaware",
            "restartPolicy": "Always",
            "ports": [{"name": "cacheaware", "containerPort": 9440}],
        }
    ]
    pods_seen(PODS, one)
    pods_seen.api.proxied = answer


DRIFT = {"id": "canary-drift", "severity": "warning", "message": "3 answers on end"}


def test_what_only_the_sidecar_knows_is_told_with_the_pages_findings(cluster, capsys):
    full = {"id": "kv-full", "severity": "error", "message": "of a page"}
    odd = {"id": "canary-drift", "severity": "loud", "message": "of another time"}
    state = {"schema": 1, "phase": "serving", "findings": [DRIFT, full, odd]}
    with_sidecar(cluster, pages=WELL, state=state)
    _, out, _ = ran(capsys, "doctor", "pod/chat-1", "--seconds", "0.1", "-o", "json")
    told = [one for one in json.loads(out)["findings"] if one["id"] in {"canary-drift", "kv-full"}]

    assert [(one["id"], one["severity"], one["subject"]) for one in told] == [
        ("canary-drift", "warning", "pod/chat-1")
    ]
    assert told[0]["message"] == "3 answers on end"
    assert "probe canary" in told[0]["fix"]


def test_a_sidecar_that_is_silent_spoils_nothing(cluster, capsys):
    with_sidecar(cluster, pages=WELL, state=None)
    _, out, _ = ran(capsys, "doctor", "pod/chat-1", "--seconds", "0.1", "-o", "json")

    assert json.loads(out)["looks"][0]["subject"] == "pod/chat-1"


def test_a_pod_that_is_not_there_is_bad_input(pods, capsys):
    pods()
    code, _, err = ran(capsys, "doctor", "pod/chat-9")
    assert (code, err) == (2, "cacheaware: no Pod 'chat-9' in namespace 'demo'\n")
    code, _, err = ran(capsys, "doctor", "pod/../x")
    assert (code, err) == (2, "cacheaware: the pod is 'pod/../x': allowed is pod/NAME\n")
