"""The one module that talks to the API."""

import asyncio
import contextlib
import json

import pytest
from kubernetes.aio.client import Configuration
from tests.operator.conftest import loader
from tests.operator.fake_api import Fault

from cacheaware.act.lease import DEADLINE_SECONDS, DURATION_SECONDS
from cacheaware.backoff import Gate
from cacheaware.kube import CALLS_AT_ONCE, WRITE_SECONDS, Kube, KubeError, load_credentials

PODS = ("", "v1", "pods")
PATH = "/api/v1/namespaces/demo/pods"


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


async def pods(api, count):
    for number in range(count):
        await api.put(PODS, {"metadata": {"namespace": "demo", "name": f"p{number:03d}"}})


async def closing(kube, work):
    try:
        return await work
    finally:
        await kube.close()


async def test_lists_come_in_pages(api, kube, monkeypatch):
    monkeypatch.setattr("cacheaware.kube.PAGE", 2)
    await pods(api, 5)
    sizes = [len(page["items"]) async for page in kube.pages(PATH)]
    assert sizes == [2, 2, 1]


async def test_a_refusal_carries_status_reason_and_message(api, kube):
    with pytest.raises(KubeError, match="404 NotFound") as error:
        await kube.get(f"{PATH}/none")
    assert (error.value.status, error.value.reason) == (404, "NotFound")


async def test_a_server_that_is_not_there_is_told(unused_tcp_port):
    async def load():
        from kubernetes.aio.client import Configuration

        return Configuration(host=f"http://127.0.0.1:{unused_tcp_port}")

    kube = Kube(load)
    with pytest.raises(KubeError, match="0 Unreachable"):
        await closing(kube, kube.get("/version"))


async def test_an_answer_that_is_no_json_is_told(api, kube):
    from aiohttp import web

    api._discovery = lambda path: None
    api._serve = lambda *_: asyncio.sleep(0, web.Response(text="<html>"))
    with pytest.raises(KubeError, match="Unreachable"):
        await kube.get(f"{PATH}/x")


async def test_a_call_has_a_timeout(api, kube):
    api.faults.append(Fault(lambda *_: True, hang=True))
    with pytest.raises(KubeError, match="Unreachable: Timeout"):
        await kube.get("/version", seconds=0.1)


async def test_a_429_is_asked_again_after_retry_after_and_not_before(api, case):
    clock = Clock()
    kube = Kube(loader(api), clock=clock, gate=Gate(jitter=lambda: 0.0))
    http = case("090", "input.http")
    assert "Retry-After: 5" in http
    throttled = Fault(
        lambda method, _: method == "PATCH",
        status=429,
        reason="TooManyRequests",
        times=4,
        headers={"Retry-After": "5"},
    )
    api.faults.append(throttled)
    await pods(api, 1)
    sent_at = []
    for second in range(60):
        clock.now, before = float(second), len(api.calls)
        with contextlib.suppress(KubeError):
            await kube.patch(f"{PATH}/p000", {"metadata": {"labels": {"a": "b"}}})
        if len(api.calls) > before:
            sent_at.append(second)
        if len(sent_at) == 5:
            break
    await kube.close()
    assert sent_at == [0, 5, 10, 15, 23]


async def test_without_the_lease_no_write_is_sent_and_none_is_held_against_the_server(api, kube):
    await pods(api, 1)
    kube.may_write = lambda: False
    for write in (kube.patch(f"{PATH}/p000", {}), kube.create(PATH, {"metadata": {"name": "x"}})):
        with pytest.raises(KubeError, match="409 LeaseNotHeld"):
            await write
    assert [call for call in api.calls if call.method != "GET"] == []
    assert await kube.get(f"{PATH}/p000")
    await kube.patch(f"{PATH}/p000", {}, fenced=False)
    kube.may_write = lambda: True
    await kube.patch(f"{PATH}/p000", {})


async def test_the_lease_is_asked_at_the_last_moment(api):
    """A write that waited for its turn, or for a new token, is sent by the holder alone."""
    asked = []
    kube = Kube(loader(api))
    kube.may_write = lambda: asked.append(True) or len(asked) < 2
    await pods(api, 1)
    api.tokens = {"another"}
    with pytest.raises(KubeError, match="409 LeaseNotHeld"):
        await closing(kube, kube.patch(f"{PATH}/p000", {}))
    assert len([call for call in api.calls if call.method == "PATCH"]) == 1


def test_a_write_that_was_begun_in_time_ends_before_another_may_take_the_lease():
    assert DEADLINE_SECONDS + WRITE_SECONDS < DURATION_SECONDS


async def test_errors_are_counted(api):
    seen = []
    kube = Kube(loader(api), on_error=lambda *found: seen.append(found))
    with pytest.raises(KubeError):
        await closing(kube, kube.get(f"{PATH}/none"))
    assert seen == [("GET", 404)]


@pytest.mark.parametrize("minutes", [0, 61], ids=["at the 401", "by the minute"])
async def test_a_rotated_token_is_read_again(api, minutes):
    clock, tokens = Clock(), ["A"]
    api.tokens = {"A"}
    kube = Kube(loader(api, lambda: tokens[-1]), clock=clock)
    try:
        await kube.get("/version")
        tokens.append("B")
        api.tokens = {"B"}
        clock.now = minutes * 60.0
        await kube.get("/version")
    finally:
        await kube.close()
    refused = [c for c in api.calls[1:] if c.authorization == "bearer A"]
    assert len(refused) == (1 if minutes == 0 else 0)


async def test_a_token_that_is_wrong_for_good_is_a_401(api, kube):
    api.tokens = {"another"}
    with pytest.raises(KubeError, match="401 Unauthorized"):
        await kube.get("/version")


async def test_a_password_is_sent_as_basic(api):
    async def load():
        from kubernetes.aio.client import Configuration

        return Configuration(host=api.url, username="user", password="password")

    kube = Kube(load)
    await closing(kube, kube.get("/version"))
    assert api.calls[-1].authorization.startswith("Basic ")


async def test_a_watch_gives_events_and_bookmarks(api, kube):
    api.bookmark_seconds = 0.05
    await pods(api, 1)
    kinds = []
    async for event in kube.watch(PATH, {"resourceVersion": "1000"}, idle_seconds=5):
        kinds.append(event["type"])
        if len(kinds) == 2:
            break
    assert kinds == ["ADDED", "BOOKMARK"]


async def test_a_long_event_is_read_whole(api, kube):
    big = {"metadata": {"namespace": "demo", "name": "big", "annotations": {"a": "x" * 3_000_000}}}
    await api.put(PODS, big)
    async for event in kube.watch(PATH, {"resourceVersion": "1000"}, idle_seconds=5):
        assert len(event["object"]["metadata"]["annotations"]["a"]) == 3_000_000
        break


async def test_an_expired_version_is_a_410(api, kube, case):
    api.forget_history()
    with pytest.raises(KubeError) as error:
        async for _ in kube.watch(PATH, {"resourceVersion": "1"}, idle_seconds=5):
            pass
    assert error.value.status == case("089", "input.410.json")["status"] == 410


async def test_a_silent_watch_is_told(api, kube):
    api.silent_watches = True
    with pytest.raises(KubeError, match="Silent"):
        async for _ in kube.watch(PATH, {"resourceVersion": "1000"}, idle_seconds=0.2):
            pass


async def test_the_token_is_in_no_error(api, kube):
    api.faults.append(Fault(lambda *_: True, status=403, reason="Forbidden"))
    with pytest.raises(KubeError) as error:
        await kube.get("/version")
    assert "secret-token" not in repr(error.value) + str(error.value)


async def test_credentials_come_from_the_kubeconfig(tmp_path, monkeypatch):
    config = tmp_path / "config"
    user = {"name": "u", "user": {"token": "t"}}
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    body = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}
    config.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **body}))
    monkeypatch.setattr(
        "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(config)
    )
    assert (await load_credentials()).host == "http://127.0.0.1:1"
    config.unlink()
    with pytest.raises(KubeError, match="NoCredentials"):
        await load_credentials()


@pytest.mark.parametrize(
    "text", ["{", "[]", "1", "", "\0\1", '{"clusters": 5, "current-context": "x"}'], ids=repr
)
async def test_a_kubeconfig_that_can_not_be_used_is_no_credentials(text, tmp_path, monkeypatch):
    config = tmp_path / "config"
    config.write_text(text)
    where = "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(where, str(config))
    with pytest.raises(KubeError, match="NoCredentials: the credentials can't be used"):
        await load_credentials()
    config.unlink()
    with pytest.raises(KubeError, match=f"no kubeconfig at {config}"):
        await load_credentials()
    monkeypatch.setattr(where, "")
    with pytest.raises(KubeError, match="no kubeconfig at ''"):
        await load_credentials()


async def test_a_certificate_that_can_not_be_read_is_no_credentials(tmp_path):
    async def load():
        (tmp_path / "ca.crt").write_text("no certificate")
        return Configuration(host="https://127.0.0.1:1", ssl_ca_cert=str(tmp_path / "ca.crt"))

    with pytest.raises(KubeError, match="NoCredentials: the certificates can't be used"):
        await Kube(load).get("/api")


async def test_credentials_come_from_the_service_account(tmp_path, monkeypatch):
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("text")
    where = "kubernetes.aio.config.incluster_config"
    monkeypatch.setattr(f"{where}.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(f"{where}.SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr("cacheaware.kube.SERVICE_ACCOUNT", tmp_path / "token")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = await load_credentials()
    assert found.host == "https://10.0.0.1:443"
    (tmp_path / "token").write_text("newer")
    assert "newer" in (await load_credentials()).api_key["BearerToken"]


async def test_a_lease_waits_behind_no_other_call(api, kube):
    path = "/apis/coordination.k8s.io/v1/namespaces/ops/leases"
    await api.put(("", "v1", "namespaces"), {"metadata": {"name": "ops"}})
    api.faults.append(Fault(lambda _, path: path == PATH, hang=True))
    hanging = [asyncio.create_task(kube.get(PATH)) for _ in range(CALLS_AT_ONCE + 1)]
    await asyncio.sleep(0.1)
    async with asyncio.timeout(5):
        assert (await kube.get(path))["items"] == []
    for one in hanging:
        one.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
