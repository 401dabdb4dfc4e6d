"""Control calls: each ends in time, with a word for people, and tells nobody the token."""

import asyncio
import logging

import pytest
from tests.operator.fake_api import Fault
from tests.operator.fake_pods import FakeFleet, FakePod

from cacheaware.act import control as module
from cacheaware.act.control import Control, host, line
from cacheaware.act.tokens import Account, Tokens
from cacheaware.pods import PodRecord


@pytest.fixture
async def fleet():
    async with FakeFleet() as found:
        yield found


@pytest.fixture
def counted():
    return []


@pytest.fixture
async def control(api, kube, counted):
    await api.put(("", "v1", "serviceaccounts"), {"metadata": {"namespace": "ops", "name": "op"}})
    found = Control(
        Tokens(kube, Account("ops", "op")), count=lambda call, word: counted.append((call, word))
    )
    yield found
    await found.close()


def record(fleet, pod, uid="u1"):
    ip = fleet.add(pod)
    return PodRecord(namespace="demo", name="p", uid=uid, labels={}, ip=ip, sidecar_port=fleet.port)


async def test_each_call_has_its_body_and_its_token(fleet, control, counted):
    pod = FakePod()
    target = record(fleet, pod)
    assert (await control.cordon(target, "cas")).accepted
    assert (await control.deadline(target, 12.5)).accepted
    assert (await control.uncordon(target, "cas")).accepted
    token = "Bearer token-1 cacheaware.dev/pod/u1"
    assert pod.calls == [
        ("cordon", {"by": "cas", "seconds": 60}, token),
        ("deadline", {"seconds": 12.5}, token),
        ("uncordon", {"by": "cas"}, token),
    ]
    assert counted == [(call, "accepted") for call, _, _ in pod.calls]


async def test_a_token_is_spent_with_the_cordon(api, fleet, control):
    target = record(fleet, FakePod())
    await control.cordon(target, "cas")
    await control.uncordon(target, "cas")
    await control.cordon(target, "cas")
    assert api.minted == 2


async def test_a_spent_token_is_made_anew_once(api, fleet, control):
    pod = FakePod(cordon_status=401)
    outcome = await control.cordon(record(fleet, pod), "cas")
    assert (outcome.status, len(pod.calls), api.minted) == (401, 2, 2)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 503])
async def test_a_refusal_is_told_in_the_sidecars_words(fleet, control, counted, status):
    pod = FakePod(cordon_status=status)
    outcome = await control.cordon(record(fleet, pod), "cas")
    assert not outcome.accepted
    assert outcome.why == f"its sidecar answers {status}: not by you"
    assert counted == [("cordon", "refused")]
    assert len(pod.calls) == 1


async def test_one_that_hangs_costs_its_time_and_no_more(fleet, control, counted, monkeypatch):
    monkeypatch.setattr(module, "CALL_SECONDS", 0.2)
    hung, well = FakePod(cordon_status=0), FakePod()
    calls = (
        control.cordon(record(fleet, pod, uid), "cas") for uid, pod in (("a", hung), ("b", well))
    )
    async with asyncio.timeout(2):
        first, second = await asyncio.gather(*calls)
    assert (first.word, second.word) == ("unreachable", "accepted")
    assert first.why == "its sidecar did not answer in 0.2 s"


async def test_one_that_is_not_there_is_told_without_its_address(fleet, control):
    gone = PodRecord(namespace="demo", name="p", uid="u", labels={}, ip="127.0.0.1", sidecar_port=1)
    outcome = await control.cordon(gone, "cas")
    assert outcome.word == "unreachable"
    assert outcome.why.startswith("its sidecar is not reached: ")
    assert "127" not in outcome.why


@pytest.mark.parametrize("ip", [None, "not an address"])
async def test_a_pod_without_an_address_is_unreachable(control, ip):
    nowhere = PodRecord(namespace="demo", name="p", uid="u", labels={}, ip=ip, sidecar_port=9)
    assert (await control.cordon(nowhere, "cas")).word == "unreachable"


async def test_where_no_token_can_be_made_no_pod_is_called(api, fleet, control):
    api.faults.append(Fault(lambda _, path: path.endswith("/token"), 403, "Forbidden"))
    pod = FakePod()
    outcome = await control.cordon(record(fleet, pod), "cas")
    assert outcome.why == "no token can be made: Forbidden"
    assert pod.calls == []


async def test_what_was_decided_under_the_lease_is_not_sent_without_it(kube, api, fleet):
    await api.put(("", "v1", "serviceaccounts"), {"metadata": {"namespace": "ops", "name": "op"}})
    held = [True]
    tokens = Tokens(kube, Account("ops", "op"))
    made = tokens._make

    async def slowly(uid):
        text = await made(uid)
        held[0] = False  # while the token was made
        return text

    tokens._make = slowly
    control = Control(tokens, may_call=lambda: held[0])
    pod = FakePod()
    assert "LeaseNotHeld" in (await control.cordon(record(fleet, pod), "cas")).why
    assert pod.calls == []
    await control.close()


async def test_a_redirect_is_not_followed(fleet, control):
    """It would carry the token elsewhere."""
    pod = FakePod(cordon_status=307)
    assert not (await control.cordon(record(fleet, pod), "cas")).accepted
    assert len(pod.calls) == 1


async def test_no_log_line_has_the_token(fleet, control, caplog):
    caplog.set_level(logging.DEBUG)
    for status in (200, 401, 403):
        await control.cordon(record(fleet, FakePod(cordon_status=status), f"u{status}"), "cas")
    assert "token-" not in caplog.text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no\n", "no"),
        (b"a\r\nb\tc", "a b c"),
        (b"\x1b[31mred\x00", "[31mred"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 900, "x" * 200),
    ],
)
def test_a_sidecars_words_are_one_printable_line(content, said):
    assert line(content) == said


@pytest.mark.parametrize(("ip", "shown"), [("10.0.0.1", "10.0.0.1"), ("fd00::1", "[fd00::1]")])
def test_an_address_of_either_family_fits_a_url(ip, shown):
    assert host(ip) == shown
