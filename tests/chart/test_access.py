"""The program of `helm test`, against an API server that answers from a table."""

import json

import pytest

SCOPES = [
    {
        "namespace": "ops",
        "rules": [
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "resourceNames": ["l"],
                "verbs": ["get"],
            }
        ],
    },
    {
        "namespace": "",
        "scalers": True,
        "rules": [
            {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]}
        ],
    },
]


@pytest.fixture
def access(program, monkeypatch):
    monkeypatch.setenv("ACCESS", json.dumps(SCOPES))
    return program("charts/cacheaware/files/access.py")


def api_server(denied=(), scalers=200):
    """Answers reviews with yes but for the verbs denied; a list of CacheAwareScalers by status."""

    def call(path, body=None):
        if body is None:
            return scalers, {"items": []}
        return 201, {
            "status": {"allowed": body["spec"]["resourceAttributes"]["verb"] not in denied}
        }

    return call


def test_all_is_well_when_every_answer_is_yes(access, capsys):
    assert access.main(api_server()) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok      read the CacheAwareScalers: HTTP 200",
        "ok      get leases.coordination.k8s.io l in ops",
        "ok      get deployments.apps/scale in all namespaces",
        "ok      patch deployments.apps/scale in all namespaces",
        "all checks passed",
    ]


def test_a_missing_verb_is_named_and_fails(access, capsys):
    assert access.main(api_server(denied={"patch"})) == 1
    out = capsys.readouterr().out
    assert "MISSING patch deployments.apps/scale in all namespaces\n1 checks failed\n" in out


def test_a_cluster_without_the_kind_fails(access, capsys):
    assert access.main(api_server(scalers=404)) == 1
    assert "MISSING read the CacheAwareScalers: HTTP 404" in capsys.readouterr().out


def test_an_answer_without_a_status_is_a_no(access):
    assert access.main(lambda path, body=None: (500, {})) == 1


def test_a_question_takes_the_subresource_apart(access):
    asked = list(access.questions(SCOPES))
    assert asked[1] == {
        "namespace": "",
        "group": "apps",
        "resource": "deployments",
        "subresource": "scale",
        "name": "",
        "verb": "get",
    }


def test_a_busy_api_server_is_asked_again_each_second(access):
    answers, slept = iter([429, 503, 200]), []
    call = access.patient(lambda path, body: (next(answers), {"path": path}), slept.append)
    assert call("/apis") == (200, {"path": "/apis"})
    assert slept == [1, 1]


def test_an_api_server_that_stays_busy_is_given_up(access):
    slept = []
    call = access.patient(lambda path, body: (429, {}), slept.append)
    assert call("/apis") == (429, {})
    assert len(slept) == access.TRIES


class FakeConnection:
    """Stands for http.client.HTTPSConnection and remembers what it was asked."""

    asked: dict

    def __init__(self, host, port, *, timeout, context):
        FakeConnection.asked = {"host": host, "port": port, "timeout": timeout}

    def request(self, method, path, body, headers):
        self.asked |= {"method": method, "path": path, "body": body, "headers": headers}

    def getresponse(self):
        return self

    status = 201

    def read(self):
        return b'{"kind": "Answer"}'


@pytest.mark.parametrize(
    ("body", "method"), [(None, "GET"), ({"a": 1}, "POST")], ids=["get", "post"]
)
def test_a_request_carries_the_pods_token_and_trusts_the_clusters_ca(
    access, monkeypatch, tmp_path, body, method
):
    trusted = []
    monkeypatch.setattr(access, "ACCOUNT", tmp_path)
    monkeypatch.setattr(access.http.client, "HTTPSConnection", FakeConnection)
    monkeypatch.setattr(
        access.ssl, "create_default_context", lambda *, cafile: trusted.append(cafile)
    )
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("secret\n")

    assert access.api("/apis", body) == (201, {"kind": "Answer"})
    asked = FakeConnection.asked
    assert (asked["host"], asked["port"], asked["timeout"]) == ("fd00::1", 443, 10)
    assert (asked["method"], asked["path"]) == (method, "/apis")
    assert asked["headers"]["Authorization"] == "Bearer secret"
    assert trusted == [str(tmp_path / "ca.crt")]
