"""Control calls of the real process over HTTP, with a fake API server beside it."""

import ast
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.sidecar.cluster_fakes import ACCOUNT, UID, FakeApi, bearer, mint, own_secrets

from cacheaware.act.control import Control, Outcome
from cacheaware.pods import PodRecord

OP = "3c6f5c1e-0b1d-4f53-8a54-1b4f1c2c7d11"
LEASE = {"by": OP, "seconds": 60}
LOADED = """\
import sys
from cacheaware_sidecar.__main__ import main
main([])
print(sorted({"jwt", "cryptography"} & set(sys.modules)))
"""


@pytest.fixture
def api(tmp_path):
    api = FakeApi(tmp_path)
    yield api
    api.stop()


@pytest.fixture
def controlled(api, sidecar, tmp_path):
    """Starts a sidecar that serves and takes the operator's calls."""

    def start(**more):
        secrets = own_secrets(tmp_path / "secrets")
        it = sidecar(environ=api.environ, token_dir=secrets, operator_account=ACCOUNT, **more)
        it.until_phase("serving")
        return it

    return start


def token(jti="9f8e"):
    return mint(time.time(), jti=jti)


def test_a_cordon_survives_the_sidecar_and_its_token_is_spent_with_it(controlled):
    it = controlled()
    answer = it.post("/cordon", LEASE, bearer(token()))
    assert (answer.status_code, answer.json()) == (200, {"phase": "cordoned", "lease_s": 60.0})
    assert it.get("/readyz").status_code == 503
    assert f"cordoned for 0 s by {OP}" in it.get("/readyz").text

    it.stop(signal.SIGKILL)
    it.start()
    assert it.get("/readyz").status_code == 503
    drain = it.get("/v1/state").json()["drain"]
    assert (drain["cordoned_by"], 50 < drain["lease_s"] < 60) == (OP, True)
    assert it.post("/uncordon", {"by": OP}, bearer(token())).json() == {"phase": "serving"}
    assert it.is_ready

    it.stop(signal.SIGKILL)
    it.start()
    refused = it.post("/cordon", LEASE, bearer(token()))
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert "cordon that has ended" in refused.text
    assert it.is_ready
    page = it.get("/metrics").text
    assert 'cacheaware_control_answers_total{call="cordon",status="401"} 1.0' in page
    assert token().split(".")[2] not in it.log.read_text()


class Minted:
    """The operator's tokens without an API: a new one each time the last was forgotten."""

    def __init__(self):
        self.count = 1

    async def of(self, uid):
        assert uid == UID
        return token(str(self.count))

    def forget(self, uid):
        self.count += 1


async def test_the_operators_own_calls_are_understood(controlled):
    it = controlled()
    known = {"namespace": "ns", "name": "pod", "uid": UID, "labels": {}}
    record = PodRecord(**known, ip="127.0.0.1", sidecar_port=it.port)
    tokens = Minted()
    operator = Control(tokens)
    taken = Outcome(status=200)

    assert [await operator.cordon(record, OP) for _ in range(2)] == [taken] * 2
    assert it.phase == "cordoned"
    assert (await operator.cordon(record, "another")).why == (
        f"its sidecar answers 409: the cordon is held by {OP}"
    )
    assert await operator.uncordon(record, OP) == taken
    assert it.phase == "serving"
    tokens.count = 1  # as an operator that has not heard of the cordon's end
    assert await operator.cordon(record, OP) == taken
    assert await operator.uncordon(record, OP) == taken
    assert (await operator.deadline(record, 60)).why == (
        "its sidecar answers 409: no final drain is under way: the pod is serving"
    )
    await operator.close()


def test_a_lease_that_nobody_renews_ends_by_itself(controlled):
    it = controlled()
    assert it.post("/cordon", {"by": OP, "seconds": 5}, bearer(token())).status_code == 200
    began = time.monotonic()
    it.until(lambda: it.is_ready)

    assert 4 < time.monotonic() - began < 7
    assert 'cacheaware_cordons_ended_total{how="expired"} 1.0' in it.get("/metrics").text


def test_probes_are_answered_while_a_call_waits_for_the_api_server(api, controlled):
    it = controlled()
    api.hang.clear()
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(it.post, "/cordon", LEASE, bearer(token())) for _ in range(8)]
        assert api.seen.wait(10)
        began = time.monotonic()
        for _ in range(10):
            assert it.get("/readyz", timeout=1).status_code == 200
            assert it.get("/v1/state", timeout=1).status_code == 200
        spent = time.monotonic() - began
        api.hang.set()
        answers = sorted(call.result().status_code for call in calls)

    assert spent < 2
    assert answers == [200] * 4 + [503] * 4
    assert it.phase == "cordoned"


@pytest.mark.parametrize(
    ("calls", "loaded"),
    [
        ((None, "garbage"), []),
        ((None, "good"), ["cryptography", "jwt"]),
    ],
    ids=["not for what is no token", "for the first token"],
)
def test_the_libraries_are_loaded_for_the_first_token_only(controlled, calls, loaded):
    it = controlled(program=("-c", LOADED))
    for each in calls:
        text = token() if each == "good" else each
        it.post("/cordon", LEASE, bearer(text) if text else {})
    it.stop()

    assert ast.literal_eval(it.said.read_text()) == loaded
