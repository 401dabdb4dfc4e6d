"""Tokens: one for each pod, kept while they last, told to nobody."""

import pytest
from tests.operator.fake_api import Fault

from cacheaware.act.tokens import SECONDS, SPARE_SECONDS, Account, Token, Tokens
from cacheaware.kube import KubeError

ACCOUNT = Account("ops", "op")
LASTS = SECONDS - SPARE_SECONDS


@pytest.fixture
async def clock(api):
    await api.put(("", "v1", "serviceaccounts"), {"metadata": {"namespace": "ops", "name": "op"}})
    return [0.0]


@pytest.fixture
def tokens(kube, clock):
    return Tokens(kube, ACCOUNT, clock=lambda: clock[0])


async def test_it_is_asked_of_the_own_account_for_one_pod_and_ten_minutes(api, tokens):
    assert await tokens.of("u1")
    (call,) = api.writes()
    assert call.path == "/api/v1/namespaces/ops/serviceaccounts/op/token"
    assert call.body == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": ["cacheaware.dev/pod/u1"], "expirationSeconds": 600},
    }


async def test_it_is_kept_until_two_minutes_before_its_end(tokens, clock):
    first = await tokens.of("u1")
    clock[0] = LASTS - 0.1
    assert await tokens.of("u1") == first
    clock[0] = LASTS
    assert await tokens.of("u1") != first


async def test_each_pod_has_its_own(tokens):
    assert await tokens.of("u1") != await tokens.of("u2")


async def test_one_that_is_spent_is_made_anew(tokens):
    first = await tokens.of("u1")
    tokens.forget("u1")
    assert await tokens.of("u1") != first


async def test_those_that_ended_are_not_kept(tokens, clock):
    for number in range(50):
        await tokens.of(f"u{number}")
        clock[0] += LASTS
    assert len(tokens._kept) <= 2


async def test_without_an_account_there_is_none(kube, api):
    with pytest.raises(KubeError, match="not known"):
        await Tokens(kube, None).of("u1")
    assert api.calls == []


async def test_a_refusal_is_raised_and_nothing_is_kept(api, tokens):
    api.faults.append(Fault(lambda _, path: path.endswith("/token"), 403, "Forbidden"))
    with pytest.raises(KubeError, match="Forbidden"):
        await tokens.of("u1")
    assert tokens._kept == {}


def test_a_token_does_not_show_in_logs():
    assert "secret" not in repr(Token("secret", 1.0))
