"""Control calls as a pod answers them: who may call, what is asked, what it does to the pod."""

import asyncio
import json
import logging
import threading

import pytest
from tests.sidecar.cluster_fakes import (
    ACCOUNT,
    AUDIENCE,
    ISSUER,
    NOW,
    UID,
    FakeApi,
    jwk,
    mint,
    own_secrets,
)
from tests.sidecar.test_tokens import WRONG

from cacheaware_sidecar import authorization, store
from cacheaware_sidecar.authorization import Authorization
from cacheaware_sidecar.cluster_keys import ClusterKeys
from cacheaware_sidecar.control import LARGEST_BODY, MOST_CALLS, Control
from cacheaware_sidecar.http_server import Request
from cacheaware_sidecar.lifecycle import Emptied, Healthy, Lifecycle, Refused, Verdict, WarmupEnded
from cacheaware_sidecar.pod import Pod
from cacheaware_sidecar.settings import Settings

OP = "3c6f5c1e-0b1d-4f53-8a54-1b4f1c2c7d11"
BOOT = "b7a1"


@pytest.fixture
def api(tmp_path):
    api = FakeApi(tmp_path)
    yield api
    api.stop()


class Bench:
    """A pod that serves since second 3, its control calls, and both clocks."""

    def __init__(self, folder, api, **settings):
        own_secrets(folder / "secrets")
        given = {
            "shared_dir": str(folder),
            "token_dir": str(folder / "secrets"),
            "operator_account": ACCOUNT,
            "pod_uid": UID,
            "grace_seconds": 120,
            **settings,
        }
        self.settings = Settings(**given)
        self.folder, self.api = folder, api
        self.now, self.wall = 3.0, NOW
        self.start(Lifecycle(since=0.0))
        self.pod.apply(Healthy(), 1.0)
        self.pod.apply(WarmupEnded(1, Verdict.WARM), 3.0)

    def start(self, state):
        self.pod = Pod(self.settings, state, boot=BOOT)
        keys = ClusterKeys(self.folder / "secrets", self.api.environ, clock=lambda: self.now)
        self.control = Control(
            self.pod,
            Authorization(self.settings, keys, wall=lambda: self.wall),
            clock=lambda: self.now,
            wall=lambda: self.wall,
        )

    def restart(self):
        """The sidecar's process ends and another begins."""
        self.start(store.restore(self.folder, BOOT, self.now))

    def later(self, seconds):
        self.now += seconds
        self.wall += seconds
        self.pod.pass_time(self.now)

    async def send(self, path, body, *authorization):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.control.respond(Request("POST", path, authorization, body))

    async def call(self, path, body, token=None):
        response = await self.send(path, body, f"Bearer {token or mint()}")
        told = response.body.decode()
        return response.status, json.loads(told) if response.status == 200 else told.strip()

    async def cordon(self, by=OP, seconds=60, token=None):
        return await self.call("/cordon", {"by": by, "seconds": seconds}, token)

    async def uncordon(self, by=OP, token=None):
        return await self.call("/uncordon", {"by": by}, token)

    @property
    def drain(self):
        return self.pod.pod_state(self.now).drain


@pytest.fixture
def bench(tmp_path, api):
    return lambda **settings: Bench(tmp_path, api, **settings)


async def test_a_cordon_is_out_of_the_endpoints_until_it_is_taken_back(bench):
    it = bench()
    assert await it.cordon() == (200, {"phase": "cordoned", "lease_s": 60.0})
    assert not it.pod.is_ready(it.now)
    it.later(10)
    assert (it.drain.cordoned_by, it.drain.cordoned_s, it.drain.lease_s) == (OP, 10.0, 50.0)
    assert it.pod.status_line(it.now) == f"cordoned for 10 s by {OP}"

    assert await it.uncordon() == (200, {"phase": "serving"})
    assert it.pod.is_ready(it.now)
    assert it.drain.cordoned_by is None


async def test_a_cordon_lives_as_long_as_it_is_renewed_and_then_ends_by_itself(bench, caplog):
    caplog.set_level(logging.INFO)
    it = bench()
    for _ in range(5):
        assert (await it.cordon())[0] == 200
        it.later(50)
    assert (it.pod.phase, it.drain.cordoned_s) == ("cordoned", 250.0)
    it.later(10)
    assert it.pod.phase == "serving"
    assert f"the cordon of {OP} has ended: nobody renewed it" in caplog.text
    assert it.pod.cordons.ended == {"expired": 1}


async def test_a_cordon_survives_a_restart_of_the_sidecar_and_ends_all_the_same(bench):
    it = bench()
    await it.cordon()
    it.now += 20
    it.restart()
    assert (it.pod.phase, it.drain.lease_s) == ("cordoned", 40.0)
    it.now += 40
    it.restart()
    it.later(0)
    assert it.pod.phase == "serving"


async def test_uncordon_may_be_said_again_and_before_there_was_a_cordon(bench):
    it = bench()
    assert await it.uncordon() == (200, {"phase": "serving"})
    assert await it.uncordon() == (200, {"phase": "serving"})
    await it.cordon(token=mint(jti="a"))
    assert await it.uncordon(token=mint(jti="b")) == (200, {"phase": "serving"})
    assert await it.uncordon(token=mint(jti="c")) == (200, {"phase": "serving"})


async def test_another_scaler_neither_takes_the_cordon_nor_ends_it(bench):
    it = bench()
    await it.cordon()

    assert await it.cordon(by="other") == (409, f"the cordon is held by {OP}")
    assert await it.uncordon(by="other") == (409, f"the cordon is held by {OP}")
    assert it.drain.cordoned_by == OP


def loading(it):
    for _ in range(3):
        it.pod.apply(Refused(), it.now)


def warming(it):
    loading(it)
    it.pod.apply(Healthy(), it.now)


def draining(it):
    it.pod.begin_drain(it.now)


def drained(it):
    draining(it)
    it.pod.apply(Emptied(), it.now)


@pytest.mark.parametrize("prepare", [loading, warming, draining, drained])
async def test_only_a_pod_that_serves_can_be_cordoned(bench, prepare):
    it = bench()
    prepare(it)
    before = it.pod.state

    assert await it.cordon() == (409, f"a pod that is {prepare.__name__} can't be cordoned")
    assert it.pod.state == before


async def test_a_drain_overrides_a_cordon_and_takes_no_renewal(bench):
    it = bench()
    await it.cordon()
    draining(it)

    assert (await it.cordon())[0] == 409
    assert (it.pod.phase, it.pod.is_ready(it.now)) == ("draining", False)
    assert await it.uncordon() == (200, {"phase": "draining"})
    assert not it.pod.is_ready(it.now)


async def test_an_engine_that_dies_ends_the_cordon(bench):
    it = bench()
    await it.cordon()
    loading(it)

    assert (it.pod.phase, it.drain.cordoned_by) == ("loading", None)
    assert it.pod.cordons.ended == {"engine": 1}


@pytest.mark.parametrize("name", WRONG)
async def test_every_wrong_token_is_refused_and_changes_nothing(bench, caplog, name):
    it = bench()
    it.api.keys += [
        jwk("ES256", "plain curve", alg=None),
        jwk("RS256", "short", which="short"),
        jwk("RS256", "for encryption", use="enc"),
        jwk("RS256", "broken", n="AAAA"),
        {"kty": "oct", "kid": "secret", "k": "c2VjcmV0"},
    ]
    await it.cordon(token=mint(jti="other"))
    before = it.pod.state
    token, status, reason = WRONG[name]
    for path in ("/cordon", "/uncordon", "/deadline"):
        response = await it.send(path, {"by": OP, "seconds": 60}, f"Bearer {token}")

        assert response.status == status
        assert reason in response.body.decode()
        assert response.body.count(b"\n") == 1
        assert (("www-authenticate", "Bearer") in response.headers) is (status == 401)
        assert f"POST {path} was refused with {status}" in caplog.text
        assert it.pod.state == before
        assert it.pod.control_calls[path[1:], status] == 1
    assert not any(len(part) > 20 and part in caplog.text for part in token.split("."))


@pytest.mark.parametrize(
    "authorization",
    [
        (),
        ("",),
        ("Bearer",),
        ("Bearer ",),
        ("Basic b3A6cGFzcw==",),
        (mint(),),
        (f"Token {mint()}",),
        (f"Bearer {mint()}", f"Bearer {mint()}"),
        (f"Bearer {mint()}, Bearer {mint()}",),
        (f"Bearer {mint()} x",),
        ("Bearer \u00e4\u00f6",),
    ],
    ids=[
        "none",
        "empty",
        "no token",
        "a blank token",
        "basic",
        "no scheme",
        "another scheme",
        "twice",
        "two in one",
        "more",
        "no ascii",
    ],
)
async def test_a_call_without_one_bearer_token_is_refused(bench, authorization):
    it = bench()
    response = await it.send("/cordon", {"by": OP, "seconds": 60}, *authorization)

    assert response.status == 401
    assert it.pod.phase == "serving"
    assert it.api.asked == []


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "  Bearer  "])
async def test_the_scheme_is_read_as_http_says(bench, scheme):
    it = bench()
    response = await it.send("/cordon", {"by": OP, "seconds": 60}, f"{scheme} {mint()}")

    assert response.status == 200


SPENT = (401, "the token belongs to a cordon that has ended; use a new one")


@pytest.mark.parametrize("end", ["uncordon", "lease", "engine", "restart"])
async def test_the_token_of_an_ended_cordon_is_refused(bench, end):
    it = bench()
    token = mint(jti="a")
    await it.cordon(token=token)
    if end == "uncordon":
        await it.uncordon(token=mint(jti="b"))
    elif end == "lease":
        it.later(60)
    elif end == "engine":
        warming(it)
        it.pod.apply(WarmupEnded(2, Verdict.WARM), it.now)
    else:
        await it.uncordon(token=token)
        it.restart()

    assert it.pod.phase == "serving"
    assert await it.cordon(token=token) == SPENT
    assert await it.uncordon(token=token) == SPENT
    assert it.pod.phase == "serving"
    assert (await it.cordon(token=mint(jti="c")))[0] == 200
    assert await it.cordon(token=token) == SPENT


async def test_the_token_that_ended_a_cordon_and_those_that_renewed_it_are_spent_too(bench):
    it = bench()
    await it.cordon(token=mint(jti="a"))
    await it.cordon(token=mint(jti="b"))
    await it.uncordon(token=mint(jti="c"))

    for jti in "abc":
        assert await it.cordon(token=mint(jti=jti)) == SPENT


async def test_a_token_without_an_id_is_spent_too(bench):
    it = bench()
    token = mint(jti=None)
    await it.cordon(token=token)
    await it.uncordon(token=mint(jti="b"))

    assert await it.cordon(token=token) == SPENT


async def test_a_lease_that_ran_out_is_not_renewed_by_its_own_token(bench):
    it = bench()
    await it.cordon()
    it.now += 60

    assert await it.cordon() == SPENT
    assert it.pod.phase == "serving"


async def test_a_spent_token_is_remembered_until_it_would_have_expired(bench):
    it = bench()
    token = mint()
    await it.cordon(token=token)
    await it.uncordon(token=token)
    it.later(659)
    assert await it.cordon(token=token) == SPENT
    it.later(1)
    assert "expired" in (await it.cordon(token=token))[1]
    await it.cordon(token=mint(it.wall, jti="new"))
    assert [each.expires for each in it.pod.state.spent] == []


async def test_jumps_of_the_wall_clock_do_not_end_a_cordon(bench):
    it = bench()
    await it.cordon()
    it.wall += 1e6
    it.later(59)
    assert it.pod.phase == "cordoned"
    it.wall -= 2e6
    it.later(1)
    assert it.pod.phase == "serving"


async def test_without_an_account_all_calls_are_refused(bench):
    it = bench(operator_account=None)
    status, line = await it.cordon()

    assert status == 403
    assert line == "control calls are not enabled: CACHEAWARE_OPERATOR_ACCOUNT is not set"
    assert it.api.asked == []


async def test_the_pods_uid_is_in_its_own_token(bench):
    assert (await bench(pod_uid=None).cordon())[0] == 200


@pytest.mark.parametrize(
    "own", [{"kubernetes.io": None}, {"kubernetes.io": {"pod": "x"}}, {"kubernetes.io": []}]
)
async def test_without_its_uid_a_pod_takes_no_calls(bench, own):
    it = bench(pod_uid=None)
    own_secrets(it.folder / "secrets", **own)
    status, line = await it.cordon()

    assert (status, "set CACHEAWARE_POD_UID" in line) == (403, True)


@pytest.mark.parametrize("own", ["", "x.y.z", mint(iss=None), mint(iss=7)], ids=range(4))
async def test_without_its_own_token_a_pod_can_not_check_any(bench, own):
    it = bench()
    (it.folder / "secrets" / "token").write_text(own)
    status, line = await it.cordon()

    assert (status, line.startswith("the pod's own token is not available")) == (503, True)


async def test_the_issuer_is_that_of_the_pods_own_token(bench):
    it = bench()
    own_secrets(it.folder / "secrets", iss="https://oidc.example/abc")

    assert (await it.cordon(token=mint(iss="https://oidc.example/abc")))[0] == 200
    assert (await it.cordon(token=mint(iss=ISSUER)))[0] == 401


async def test_without_keys_the_call_is_503_and_with_them_it_is_taken(bench):
    it = bench()
    it.api.status = 500
    status, line = await it.cordon()
    assert (status, line.startswith("the cluster's keys are not available")) == (503, True)
    assert it.pod.phase == "serving"

    it.api.status = 200
    it.later(5)
    assert (await it.cordon())[0] == 200


async def test_the_last_keys_outlive_an_outage_of_the_api_server(bench):
    it = bench()
    await it.cordon()
    it.api.stop()
    for _ in range(9):
        it.later(50)
        assert (await it.cordon(token=mint(it.wall, jti="later")))[0] == 200


@pytest.mark.parametrize(
    ("path", "body", "line"),
    [
        ("/cordon", b"", "the body is no JSON object with each field once"),
        ("/cordon", b"{", "the body is no JSON object with each field once"),
        ("/cordon", b"[]", "the body is no JSON object with each field once"),
        ("/cordon", b"null", "the body is no JSON object with each field once"),
        ("/cordon", b"[" * 4000, "the body is no JSON object with each field once"),
        ("/cordon", b'{"by": "\xff"}', "the body is no JSON object with each field once"),
        ("/cordon", '{"by": "x"}'.encode("utf-16"), "the body is no JSON object with each"),
        ("/cordon", b'{"by": "x", "by": "y"}', "the body is no JSON object with each field once"),
        ("/cordon", {"seconds": 60}, "by is None; allowed: the uid of a CacheAwareScaler"),
        ("/cordon", {"by": "", "seconds": 60}, "by is ''; allowed: the uid"),
        ("/cordon", {"by": 7, "seconds": 60}, "by is 7; allowed: the uid"),
        ("/cordon", {"by": "a\nb", "seconds": 60}, "by is 'a\\nb'; allowed: the uid"),
        ("/cordon", {"by": "x" * 129, "seconds": 60}, "by is 'xxx"),
        ("/cordon", {"by": "ä", "seconds": 60}, "by is '\\xe4'; allowed: the uid"),
        ("/cordon", {"by": OP}, "seconds is None; allowed: a number from 5 to 300"),
        ("/cordon", {"by": OP, "seconds": "60"}, "seconds is '60'; allowed: a number"),
        ("/cordon", {"by": OP, "seconds": True}, "seconds is True; allowed: a number"),
        ("/cordon", {"by": OP, "seconds": 4.9}, "seconds is 4.9; allowed: a number from 5"),
        ("/cordon", {"by": OP, "seconds": 301}, "seconds is 301; allowed: a number from 5 to 300"),
        ("/cordon", {"by": OP, "seconds": -60}, "seconds is -60; allowed: a number"),
        ("/cordon", b'{"by": "op", "seconds": NaN}', "seconds is nan; allowed: a number"),
        ("/cordon", b'{"by": "op", "seconds": 1e999}', "seconds is inf; allowed: a number"),
        ("/cordon", b'{"by": "op", "seconds": %s}' % (b"9" * 4000), "seconds is 9999"),
        ("/uncordon", {}, "by is None; allowed: the uid of a CacheAwareScaler"),
        ("/deadline", {}, "seconds is None; allowed: a number from 0 to 1e+06"),
        ("/deadline", {"seconds": -1}, "seconds is -1; allowed: a number from 0"),
    ],
    ids=str,
)
async def test_a_bad_body_is_one_clear_line(bench, path, body, line):
    it = bench()
    response = await it.send(path, body, f"Bearer {mint()}")
    told = response.body.decode()

    assert (response.status, told.startswith(line), told.count("\n")) == (400, True, 1), told
    assert it.pod.phase == "serving"


async def test_a_large_body_is_refused(bench):
    it = bench()
    body = json.dumps({"by": OP, "seconds": 60}).encode().ljust(LARGEST_BODY + 1)
    response = await it.send("/cordon", body, f"Bearer {mint()}")

    assert response.status == 413
    assert (await it.send("/cordon", body[:-1], f"Bearer {mint()}")).status == 200


async def test_fields_of_newer_operators_are_ignored(bench):
    body = {"by": OP, "seconds": 60, "why": {"since": "a newer release"}}

    assert (await bench().call("/cordon", body))[0] == 200


async def test_whoever_may_not_call_is_not_told_what_is_wrong_with_the_body(bench):
    assert (await bench().send("/cordon", b"{")).status == 401


@pytest.mark.parametrize("seconds", [5, 300, 7.5])
async def test_any_lease_within_the_bounds_is_given(bench, seconds):
    assert (await bench().cordon(seconds=seconds))[1]["lease_s"] == seconds


async def test_a_deadline_only_makes_a_drain_shorter(bench):
    it = bench(engine_shutdown_seconds=20)
    draining(it)
    assert it.drain.deadline_s == 95
    assert await it.call("/deadline", {"seconds": 200}) == (200, {"deadline_s": 95.0})
    assert await it.call("/deadline", {"seconds": 60}) == (200, {"deadline_s": 35.0})
    it.later(5)
    assert await it.call("/deadline", {"seconds": 100}) == (200, {"deadline_s": 30.0})
    assert it.drain.deadline_s == 30
    assert await it.call("/deadline", {"seconds": 10}) == (200, {"deadline_s": 0.0})
    it.later(0)
    assert not it.pod.is_ready(it.now)


async def test_a_deadline_without_a_drain_is_refused(bench):
    it = bench()
    line = "no final drain is under way: the pod is serving"

    assert await it.call("/deadline", {"seconds": 60}) == (409, line)


async def test_a_refusal_is_said_once_in_the_log_however_often_it_comes(bench, caplog):
    it = bench()
    for _ in range(50):
        await it.cordon(token=mint(which="other"))

    assert caplog.text.count("was refused") == 1
    assert it.pod.control_calls["cordon", 401] == 50


async def test_calls_that_wait_for_keys_are_few_and_the_loop_goes_on(bench):
    it = bench()
    it.api.hang.clear()
    waiting = [asyncio.create_task(it.cordon()) for _ in range(MOST_CALLS)]
    assert await asyncio.to_thread(it.api.seen.wait, 10)
    assert await it.cordon() == (503, "too many control calls at once")
    it.api.hang.set()

    assert {status for status, _ in await asyncio.gather(*waiting)} == {200}
    assert len(it.api.asked) == 1


async def test_loading_the_library_does_not_hold_up_the_loop(bench, monkeypatch):
    began, done = threading.Event(), threading.Event()

    def slow(name):
        began.set()
        done.wait(10)

    monkeypatch.setattr(authorization, "import_module", slow)
    it = bench()
    call = asyncio.create_task(it.cordon())
    assert await asyncio.to_thread(began.wait, 10)
    assert not call.done()
    done.set()
    assert (await call)[0] == 200


async def test_the_audience_is_this_very_pod(bench):
    it = bench(pod_uid="another")

    assert (await it.cordon())[1] == (
        f"the token's aud is ['{AUDIENCE}']; allowed: cacheaware.dev/pod/another"
    )
