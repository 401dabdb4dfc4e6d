"""`cacheaware explain`: the story of a status."""

import json
from datetime import UTC, datetime

import pytest
from tests.operator.cli.conftest import example, ran
from tests.operator.conftest import scaler_body

from cacheaware import names
from cacheaware.cli import main
from cacheaware.cli.explain import ago, story
from cacheaware.kube import Kube, KubeError

SCALERS = (names.GROUP, names.VERSION, names.PLURAL)
DECISION = {
    "time": "2026-01-01T00:00:00Z",
    "from": 2,
    "to": 4,
    "raw": 5,
    "reason": "ScaledUp",
    "message": "KV holds 19,500 of 20,000 tokens; scales from 2 to 4",
    "limitedBy": ["rate"],
    "terms": [
        {"signal": "kv-tokens", "demand": 19500.0, "perReplica": 8000.0, "unit": "tokens",
         "replicas": 3, "note": "n"},
        {"signal": "pending", "demand": 0.0, "perReplica": 0.0, "unit": "requests", "replicas": 0},
    ],
    "victims": [{"pod": "chat-1", "reason": "idle"}],
}  # fmt: skip
CONDITIONS = [
    {"type": "Ready", "status": "True", "reason": "ScaledUp", "message": "m"},
    {
        "type": "MetricsAvailable",
        "status": "False",
        "reason": "MetricsTimedOut",
        "message": "b",
    },
    {"type": "ScalingLimited", "status": "True", "reason": "RateLimited", "message": "rate"},
    {"type": "Conflicted", "status": "False", "reason": "NoConflict", "message": ""},
]
STATUS = {
    "observedGeneration": 1,
    "currentReplicas": 2,
    "desiredReplicas": 4,
    "servingReplicas": 2,
    "startingReplicas": 1,
    "cordonedReplicas": 1,
    "conditions": CONDITIONS,
    "decisions": [DECISION, {**DECISION, "to": 2, "reason": "Steady", "message": "before"}],
}


def body(**status):
    found = scaler_body()
    found["metadata"] |= {"uid": "u", "generation": 1}
    return {**found, "status": {**STATUS, **status}}


KEYS = {
    "namespace", "name", "target", "mode", "minReplicas", "maxReplicas", "upToDate", "ready",
    "current", "desired", "serving", "starting", "cordoned", "observation", "lastScaleTime",
    "reason", "message", "raw", "terms", "limitedBy", "victims", "notWell", "decisions",
}  # fmt: skip


def test_the_keys_are_stable_and_there_before_any_status():
    assert set(story(body())) == KEYS
    assert set(story(scaler_body())) == KEYS


def test_the_arithmetic_is_written_out():
    kv, pending = story(body())["terms"]
    assert kv["arithmetic"] == "19,500 / 8,000 = 2.44 -> 3"
    assert pending["arithmetic"] == "0 requests"


def test_where_the_last_round_decided_nothing_an_older_decision_is_not_the_news():
    ready = {"type": "Ready", "status": "False", "reason": "TargetForbidden", "message": "no"}
    found = story(body(currentReplicas=None, conditions=[ready]))
    assert (found["reason"], found["message"], found["terms"]) == ("TargetForbidden", "no", [])
    assert len(found["decisions"]) == 2


def test_only_what_is_not_well_is_listed():
    assert [one["type"] for one in story(body())["notWell"]] == ["MetricsAvailable"]


def test_that_advise_does_not_write_is_no_news():
    advised = {"type": "ScalingActive", "status": "False", "reason": "Advised"}
    assert story(body(conditions=[advised]))["notWell"] == []
    paused = {**advised, "reason": "Paused"}
    assert story(body(conditions=[paused]))["notWell"] == [paused]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(5, "5s"), (119, "119s"), (150, "2m"), (7300, "2h"), (200_000, "2d"), (-5, "0s")],
)
def test_times_are_told_as_kubectl_does(seconds, said):
    now = datetime.fromtimestamp(1_000_000 + seconds, UTC)
    then = datetime.fromtimestamp(1_000_000, UTC).isoformat()
    assert ago(then, now) == said


def test_it_tells_the_story_in_plain_words(cluster, capsys):
    cluster(SCALERS, body())
    code, out, _ = ran(capsys, "explain", "chat")
    assert code == 0
    for said in (
        "demo/chat: Deployment chat, mode Scale, 1..10 replicas",
        "2 -> 4  ScaledUp  (2 serving, 1 starting, 1 cordoned, ",
        "19,500 / 8,000 = 2.44 -> 3",
        "Limited by rate.",
        "Gives up chat-1: idle",
        "MetricsAvailable is False: MetricsTimedOut: b",
        "Last decisions:",
    ):
        assert said in out


def test_json_is_the_same_story(cluster, capsys):
    cluster(SCALERS, body())
    code, out, _ = ran(capsys, "explain", "chat", "-n", "demo", "-o", "json")
    assert code == 0
    assert set(json.loads(out)) == KEYS


def test_what_is_not_ready_is_a_finding(cluster, capsys):
    not_ready = {**CONDITIONS[0], "status": "False"}
    cluster(SCALERS, body(conditions=[not_ready], observedGeneration=0, desiredReplicas=2))
    code, out, _ = ran(capsys, "explain", "chat")
    assert code == 1
    assert "The status is about an older spec." in out
    assert "stays at 2" in out


def test_a_target_that_is_not_there_is_said_once(cluster, capsys):
    told = {"status": "False", "reason": "TargetNotFound", "message": "no such Deployment"}
    conditions = [{"type": kind, **told} for kind in ("Ready", "TargetResolved")]
    status = {"observedGeneration": 1, "conditions": conditions, "decisions": []}
    cluster(SCALERS, {**body(), "status": status})
    code, out, _ = ran(capsys, "explain", "chat")
    assert code == 1
    assert "decides nothing  TargetNotFound" in out
    assert "TargetResolved is False: TargetNotFound" in out
    assert "Ready is False" not in out


def test_without_an_operator_it_says_so(cluster, capsys):
    cluster(SCALERS, scaler_body())
    code, out, _ = ran(capsys, "explain", "chat")
    assert code == 1
    assert "No operator has looked at it yet" in out


@pytest.mark.parametrize("args", [("explain", "none"), ("top", "none")])
def test_a_scaler_that_is_not_there_is_one_line(cluster, capsys, args):
    code, _, err = ran(capsys, *args)
    assert (code, err) == (2, "cacheaware: no CacheAwareScaler 'none' in namespace 'demo'\n")


def test_top_shows_all_scalers(cluster, capsys):
    cluster(SCALERS, body())
    other = scaler_body(ns="prod", name="other")
    cluster(SCALERS, other)
    code, out, _ = ran(capsys, "top", "-A")
    assert code == 0
    assert "NAMESPACE" in out
    assert "prod" in out
    assert "98%" in out
    code, out, _ = ran(capsys, "top", "-o", "json")
    (line,) = json.loads(out)
    assert (line["target"], line["time"]) == ("Deployment/chat", "2026-01-01T00:00:00Z")
    assert line["kvDemand"] == pytest.approx(19500 * 0.8 / (8000 * 2))
    assert (line["pending"], line["serving"], line["desired"]) == (0.0, 2, 4)
    assert line["cordoned"] == 1


def test_top_of_one_shows_its_pods(cluster, capsys, monkeypatch):
    labels = {"app": "chat"}
    cluster(SCALERS, body())
    cluster(
        ("apps", "v1", "deployments"),
        {
            "metadata": {"namespace": "demo", "name": "chat"},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}},
        },
    )
    sidecar = [{"name": "cacheaware", "containerPort": 9440}]
    for name, ports in (("a", sidecar), ("b", [])):
        meta = {"namespace": "demo", "name": name, "labels": labels}
        spec = {"nodeName": "n1", "containers": [{"name": "e", "ports": ports}]}
        cluster(("", "v1", "pods"), {"metadata": meta, "spec": spec, "status": {}})
    from cacheaware.kube import Kube

    get, state = Kube.get, {"phase": "serving", "running": 2, "waiting": 1}
    state["kv"] = {"usage": 0.5, "used_tokens": 2308.508806262231}

    async def proxied(self, path, query=None, **limits):
        if path.endswith("/pods/a:9440/proxy/v1/state"):
            return state
        return await get(self, path, query, **limits)

    monkeypatch.setattr(Kube, "get", proxied)
    code, out, _ = ran(capsys, "top", "chat")
    assert code == 0
    assert "50%" in out
    assert "no sidecar" in out
    assert "2,309" in out
    assert max(map(len, out.splitlines())) <= 100
    state["problems"] = ["something"]
    code, out, _ = ran(capsys, "top", "chat", "-o", "json")
    with_sidecar, without = json.loads(out)
    assert (with_sidecar["usage"], with_sidecar["problems"]) == (0.5, ["something"])
    assert (without["usage"], without["problem"]) == (None, "no sidecar")


def test_a_pod_that_cannot_be_asked_is_told(cluster, capsys):
    test_top = {"name": "cacheaware", "containerPort": 9440}
    cluster(SCALERS, body())
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "chat"}}}
    meta = {"namespace": "demo", "name": "chat"}
    cluster(("apps", "v1", "deployments"), {"metadata": meta, "spec": spec})
    pod = {"metadata": {**meta, "name": "a", "labels": {"app": "chat"}}}
    cluster(("", "v1", "pods"), {**pod, "spec": {"containers": [{"ports": [test_top]}]}})
    _, out, _ = ran(capsys, "top", "chat")
    assert "404 NotFound" in out
    waits = {"name": "cacheaware", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    coming = {"name": "e", "state": {"waiting": {"reason": "PodInitializing"}}}
    status = {"initContainerStatuses": [waits], "containerStatuses": [coming]}
    stuck_pod = {**pod, "spec": {"containers": [{"ports": [test_top]}]}, "status": status}
    cluster(("", "v1", "pods"), stuck_pod)
    _, out, _ = ran(capsys, "top", "chat")
    assert "cacheaware: ImagePullBackOff" in out


def test_top_of_a_scaler_without_a_target_is_one_line(cluster, capsys):
    cluster(SCALERS, body())
    code, _, err = ran(capsys, "top", "chat")
    assert code == 2
    assert "Deployment demo/chat (apps/v1) does not exist" in err


def test_all_namespaces_and_a_name_exclude_each_other(capsys):
    code, _, err = ran(capsys, "top", "chat", "-A")
    assert code == 2
    assert "--all-namespaces" in err


def test_watching_goes_on_until_it_is_stopped(cluster, capsys, monkeypatch):
    import asyncio

    cluster(SCALERS, body())
    seen = []

    async def sleep(seconds):
        seen.append(seconds)
        if len(seen) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("cacheaware.cli.top.asyncio.sleep", sleep)
    with pytest.raises((SystemExit, KeyboardInterrupt, asyncio.CancelledError)):
        main(["top", "--watch"])
    assert len(seen) == 3
    assert capsys.readouterr().out.count("ScaledUp") == 3


def test_a_cluster_that_is_not_there_is_one_line(capsys, monkeypatch, tmp_path):
    where = "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(where, str(tmp_path / "none"))
    code, _, err = ran(capsys, "explain", "chat")
    assert code == 2
    assert err == f"cacheaware: no way to a cluster: no kubeconfig at {tmp_path}/none; {REMEDY}\n"


REMEDY = "set KUBECONFIG, or run inside a cluster"


@pytest.mark.parametrize("command", ["explain", "top"])
@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_broken_kubeconfig_is_one_line(command, text, capsys, monkeypatch, tmp_path):
    (tmp_path / "config").write_text(text)
    where = "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(where, str(tmp_path / "config"))
    code, _, err = ran(capsys, command, "chat")
    assert code == 2
    assert err.startswith("cacheaware: no way to a cluster: the credentials can't be used: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "args",
    [
        ("explain", ""),
        ("explain", "../../secrets"),
        ("top", "a?b"),
        ("explain", "chat", "-n", "../x"),
        ("top", "-n", "a/b"),
    ],
    ids=" ".join,
)
def test_what_can_not_be_a_name_is_not_asked_for(args, cluster, capsys):
    code, out, err = ran(capsys, *args)
    assert (code, out) == (2, "")
    assert "allowed are lowercase letters" in err


@pytest.mark.parametrize("args", [("explain", "chat"), ("top",), ("top", "chat"), ("top", "-A")])
def test_without_the_definition_it_says_how_to_install_it(args, cluster, capsys, monkeypatch):
    async def page_not_found(self, path, query=None, **limits):
        raise KubeError(404, "Not Found")

    monkeypatch.setattr(Kube, "get", page_not_found)
    code, _, err = ran(capsys, *args)
    assert code == 2
    assert "does not know CacheAwareScaler: install the chart" in err


def test_without_the_extra_it_says_what_to_install(capsys, monkeypatch):
    import sys

    for module in ("cacheaware.kube", "cacheaware.controller.app", "kubernetes.aio.config"):
        monkeypatch.setitem(sys.modules, module, None)
    for args in (("explain", "chat"), ("top", "-n", "demo"), ("top",), ("run",)):
        code, _, err = ran(capsys, *args)
        assert code == 2
        assert "pip install 'cacheaware[operator]'" in err


@pytest.mark.parametrize("command", ["explain", "top"])
def test_the_example_of_the_help_runs(cluster, capsys, command):
    cluster(SCALERS, body())
    assert ran(capsys, *example(command))[0] == 0
