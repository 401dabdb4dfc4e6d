import asyncio

import pytest
from tests.sidecar.cluster_fakes import FakeApi, jwk, own_secrets, server_certificate

from cacheaware_sidecar import cluster_keys
from cacheaware_sidecar.cluster_keys import AGAIN_S, FIRST_AGAIN_S, LARGEST, OLD_S, ClusterKeys
from cacheaware_sidecar.refusal import RefusedError


@pytest.fixture
def api(tmp_path):
    api = FakeApi(tmp_path)
    yield api
    api.stop()


@pytest.fixture
def secrets(tmp_path):
    return own_secrets(tmp_path / "secrets")


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def keys(api, secrets, clock):
    return ClusterKeys(secrets, api.environ, clock=clock)


async def ids(keys, asked="RS256"):
    return [key["kid"] for key in await keys.for_key(asked)]


async def refusal(keys):
    with pytest.raises(RefusedError) as caught:
        await keys.for_key("RS256")
    assert caught.value.status == 503
    assert str(caught.value).startswith("the cluster's keys are not available: ")
    return str(caught.value).removeprefix("the cluster's keys are not available: ")


async def test_keys_come_from_the_clusters_api_server_with_the_pods_own_token(api, keys, secrets):
    assert await ids(keys) == ["RS256", "ES256"]
    ((path, headers),) = api.asked
    assert path == "/openid/v1/jwks"
    assert headers["authorization"] == "Bearer " + (secrets / "token").read_text().strip()


async def test_they_are_kept(api, keys, clock):
    await ids(keys)
    clock.now += OLD_S - 1
    await ids(keys)

    assert len(api.asked) == 1


async def test_an_unknown_key_asks_again_but_at_most_once_a_minute(api, keys, clock):
    await ids(keys)
    for _ in range(5):
        await ids(keys, "made up")
    clock.now += AGAIN_S - 0.1
    await ids(keys, "made up")
    assert len(api.asked) == 1

    clock.now += 0.1
    api.keys.append(jwk("ES384"))
    assert "ES384" in await ids(keys, "ES384")
    await ids(keys, "made up")
    assert len(api.asked) == 2


async def test_old_keys_are_fetched_anew_and_what_was_withdrawn_is_gone(api, keys, clock):
    await ids(keys)
    api.keys.pop()
    clock.now += OLD_S

    assert await ids(keys) == ["RS256"]


@pytest.mark.parametrize("trouble", ["status", "away", "noise", "no token"])
async def test_the_last_keys_outlive_an_outage_of_the_api_server(
    api, keys, clock, secrets, trouble
):
    await ids(keys)
    if trouble == "status":
        api.status = 500
    elif trouble == "away":
        api.stop()
    elif trouble == "noise":
        api.body = b"<html>"
    else:
        (secrets / "token").unlink()
    clock.now += 10 * OLD_S

    assert await ids(keys) == ["RS256", "ES256"]


async def test_without_keys_it_is_asked_again_soon_but_not_at_once(api, keys, clock):
    api.status = 503
    assert "answered 503" in await refusal(keys)
    await refusal(keys)
    assert len(api.asked) == 1

    api.status = 200
    clock.now += FIRST_AGAIN_S
    assert await ids(keys)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(api, keys, status):
    api.status, api.location = status, "/elsewhere"

    assert f"answered {status}" in await refusal(keys)
    assert [path for path, _ in api.asked] == ["/openid/v1/jwks"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no set of keys"),
        (b"[]", "no set of keys"),
        (b"{}", "no set of keys"),
        (b'{"keys": {}}', "no set of keys"),
        (b"[" * 9000, "no set of keys"),
        (b"\xff", "no set of keys"),
        (b'{"keys": []}', "publishes no keys"),
        (b'{"keys": [1, {"kty": "RSA"}, {"kid": 1}]}', "publishes no keys"),
        (b'{"jwks_uri": "https://evil.example/jwks"}', "no set of keys"),
        (b" " * (LARGEST + 1), "larger than 262,144 bytes"),
    ],
    ids=[
        "empty",
        "a list",
        "no field",
        "keys are no list",
        "deep",
        "bytes",
        "no keys",
        "broken keys",
        "another address",
        "huge",
    ],
)
async def test_an_answer_without_keys_is_told(api, keys, body, reason):
    api.body = body

    assert reason in await refusal(keys)


async def test_an_api_server_of_another_authority_is_not_believed(api, keys, secrets):
    (secrets / "ca.crt").write_bytes(server_certificate("another authority")[0])

    assert "CERTIFICATE_VERIFY_FAILED" in await refusal(keys)
    assert api.asked == []


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: (folder / "token").unlink(), "/token is missing"),
        (lambda folder: (folder / "token").write_text("\x00"), "/token is missing"),
        (lambda folder: (folder / "ca.crt").unlink(), "/ca.crt can't be used (No such file"),
        (lambda folder: (folder / "ca.crt").write_text("x"), "/ca.crt can't be used"),
    ],
    ids=["no token", "a broken token", "no authority", "a broken authority"],
)
async def test_a_pod_without_its_secrets_says_so(keys, secrets, spoil, reason):
    spoil(secrets)

    assert reason in await refusal(keys)


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({}, "KUBERNETES_SERVICE_HOST is missing"),
        (
            {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "x"},
            "can't be asked",
        ),
        (
            {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"},
            "can't be asked",
        ),
    ],
)
async def test_an_api_server_that_is_not_there_is_told(secrets, environ, reason):
    assert reason in await refusal(ClusterKeys(secrets, environ))


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "https://10.0.0.1:443/openid/v1/jwks"),
        (
            {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"},
            "https://[fd00::1]:6443/openid/v1/jwks",
        ),
    ],
)
def test_the_address_is_that_of_every_container(environ, url):
    assert cluster_keys.api_url(environ) == url


async def test_many_callers_wait_for_one_fetch_and_the_loop_goes_on(api, keys):
    api.hang.clear()
    callers = [asyncio.create_task(ids(keys, str(number))) for number in range(4)]
    for _ in range(20):
        await asyncio.sleep(0.01)
    api.hang.set()

    assert await asyncio.gather(*callers) == [["RS256", "ES256"]] * 4
    assert len(api.asked) == 1


async def test_an_api_server_that_hangs_is_given_up(api, keys, monkeypatch):
    monkeypatch.setattr(cluster_keys, "FETCH_S", 0.2)
    api.hang.clear()

    assert "gave no whole answer in 0.2 s" in await refusal(keys)
