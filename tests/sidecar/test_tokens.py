"""Every token that is not the operator's for this pod is refused, and why: the list."""

import base64
import hashlib
import hmac
import json

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from hypothesis import given
from hypothesis import strategies as st
from tests.sidecar.cluster_fakes import (
    ACCOUNT,
    AUDIENCE,
    CURVES,
    ISSUER,
    NOW,
    claims,
    jwk,
    mint,
    private_key,
)

from cacheaware_sidecar.refusal import RefusedError
from cacheaware_sidecar.tokens import Expected, split, verify

EXPECTED = Expected(account=ACCOUNT, issuer=ISSUER, audience=AUDIENCE)
ALGORITHMS = ("RS256", "RS384", "RS512", *CURVES)
KEYS = (
    *(jwk(algorithm) for algorithm in ALGORITHMS),
    jwk("RS256", "plain", alg=None, use=None),
    jwk("ES256", "plain curve", alg=None),
    jwk("RS256", "short", which="short"),
    jwk("RS256", "for encryption", use="enc"),
    jwk("RS256", "broken", n="AAAA"),
    {"kty": "oct", "kid": "secret", "k": "c2VjcmV0"},
)


def check(token, now=NOW, keys=KEYS):
    return verify(split(token), keys, EXPECTED, now)


def encoded(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsigned(algorithm="none", signature=b"x"):
    header = {"alg": algorithm, "kid": "RS256"}
    return f"{encoded(header)}.{encoded(claims())}.{encoded(signature)}"


def signed_with_the_public_key_as_secret():
    """The classic confusion: whoever knows the public key makes an HMAC with it."""
    public = private_key().public_key()
    secret = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    signed = f"{encoded({'alg': 'HS256', 'kid': 'RS256'})}.{encoded(claims())}"
    return f"{signed}.{encoded(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def with_other_claims(**changes):
    header, _, signature = mint().split(".")
    return f"{header}.{encoded(claims(**changes))}.{signature}"


def without_key_id():
    return jwt.encode(claims(), private_key(), "RS256")


WRONG = {
    "signed by another key": (mint(which="other"), 401, "signature is wrong"),
    "unsigned": (unsigned().rpartition(".")[0] + ".", 401, "no signed token"),
    "unsigned, with a signature": (unsigned(), 401, "algorithm"),
    "no algorithm": (unsigned(None), 401, "algorithm"),
    "an algorithm that is no word": (unsigned(["RS256"]), 401, "algorithm"),
    "HS256 with the public key as secret": (
        signed_with_the_public_key_as_secret(),
        401,
        "algorithm",
    ),
    "PS256": (mint(algorithm="PS256", kid="RS256"), 401, "algorithm"),
    "an elliptic algorithm on an RSA key": (
        mint(algorithm="ES256", kid="RS256"),
        401,
        "ES256 doesn't fit",
    ),
    "an RSA algorithm on an elliptic key": (
        mint(algorithm="RS256", kid="ES256"),
        401,
        "RS256 doesn't fit",
    ),
    "another curve": (mint(algorithm="ES384", kid="plain curve"), 401, "ES384 doesn't fit"),
    "not the algorithm of the key": (mint(algorithm="RS384", kid="RS256"), 401, "doesn't fit"),
    "a key that isn't for signatures": (mint(kid="for encryption"), 401, "doesn't fit"),
    "a secret among the keys": (mint(kid="secret"), 401, "doesn't fit"),
    "a short key": (mint(kid="short", which="short"), 401, "shorter than 2048 bits"),
    "a broken key": (mint(kid="broken"), 401, "signature is wrong"),
    "an unknown key": (mint(kid="unknown"), 401, "none that the cluster publishes"),
    "no key id": (without_key_id(), 401, "none that the cluster publishes"),
    "a key of its own in the header": (
        mint(kid="mine", which="other", headers={"jwk": jwk(which="other")}),
        401,
        "none that the cluster publishes",
    ),
    "a key's address in the header": (
        mint(which="other", headers={"jku": "https://evil.example/jwks"}),
        401,
        "signature is wrong",
    ),
    "an extension": (mint(headers={"crit": ["b64"]}), 401, "extension"),
    "other claims under a good signature": (
        with_other_claims(exp=int(NOW) + 9999),
        401,
        "signature is wrong",
    ),
    "expired": (mint(exp=int(NOW) - 60), 401, "expired 60 s ago"),
    "no expiry": (mint(exp=None), 401, "never expires"),
    "an expiry that is no time": (mint(exp="tomorrow"), 401, "exp is 'tomorrow'"),
    "an endless expiry": (mint(exp=10**400), 401, "exp is 1000"),
    "an expiry that is true": (mint(exp=True), 401, "exp is True"),
    "not valid yet": (mint(nbf=int(NOW) + 61), 401, "not valid for another 61 s"),
    "issued in the future": (mint(iat=int(NOW) + 61), 401, "not valid for another 61 s"),
    "another issuer": (mint(iss="https://other.example"), 401, "iss is 'https://other.example'"),
    "no issuer": (mint(iss=None), 401, "iss is None"),
    "two issuers": (mint(iss=[ISSUER]), 401, "iss is"),
    "another pod": (mint(aud=["cacheaware.dev/pod/other"]), 401, "aud is"),
    "two pods": (mint(aud=[AUDIENCE, "cacheaware.dev/pod/other"]), 401, "aud is"),
    "the API server": (mint(aud=["https://kubernetes.default.svc"]), 401, "aud is"),
    "more than the pod": (mint(aud=[f"{AUDIENCE}0"]), 401, "aud is"),
    "no audience": (mint(aud=None), 401, "aud is None"),
    "empty audiences": (mint(aud=[]), 401, "aud is []"),
    "a foreign account with the right audience": (
        mint(sub="system:serviceaccount:default:default"),
        403,
        f"the token is of 'system:serviceaccount:default:default'; allowed: {ACCOUNT}",
    ),
    "an account of the same name elsewhere": (
        mint(sub="system:serviceaccount:other:cacheaware"),
        403,
        "the token is of",
    ),
    "a person": (mint(sub="cluster-admin"), 403, "the token is of 'cluster-admin'"),
    "no account": (mint(sub=None), 403, "the token is of None"),
    "the right account for another pod": (
        mint(sub=ACCOUNT, aud="cacheaware.dev/pod/9"),
        401,
        "aud is 'cacheaware.dev/pod/9'",
    ),
    "an id that is no word": (mint(jti=7), 401, "jti is 7"),
    "nothing": ("", 401, "no signed token"),
    "garbage": ("garbage", 401, "no signed token"),
    "dots": ("..", 401, "no signed token"),
    "too many parts": (mint() + ".x", 401, "no signed token"),
    "other letters": (mint().replace(".", ".ä", 1), 401, "no signed token"),
    "padding": (mint() + "=", 401, "no signed token"),
    "a header that is no JSON": (f"{encoded(b'{')}.e30.e30", 401, "no JSON object"),
    "a header that is a list": (f"{encoded([])}.e30.e30", 401, "no JSON object"),
    "claims that are a number": (f"{encoded({})}.{encoded(1)}.e30", 401, "no JSON object"),
    "a header of half a byte": ("a.e30.e30", 401, "no JSON object"),
    "a deep header": (f"{encoded(b'[' * 9000)}.e30.e30", 401, "no JSON object"),
}


@pytest.mark.parametrize("name", WRONG)
def test_every_wrong_token_is_refused_with_a_reason_and_without_itself(name):
    token, status, reason = WRONG[name]
    with pytest.raises(RefusedError) as caught:
        check(token)

    line = str(caught.value)
    assert (caught.value.status, reason in line) == (status, True), line
    assert "\n" not in line
    assert not any(len(part) > 20 and part in line for part in token.split("."))


@pytest.mark.parametrize(
    "token",
    [
        *(mint(algorithm=algorithm) for algorithm in ALGORITHMS),
        mint(kid="plain"),
        mint(algorithm="ES256", kid="plain curve"),
        mint(algorithm="RS384", kid="plain"),
        mint(aud=AUDIENCE),
        mint(exp=int(NOW) - 59),
        mint(nbf=int(NOW) + 60, iat=int(NOW) + 60),
        mint(nbf=None, iat=None),
        mint(exp=NOW + 0.5),
    ],
)
def test_the_operators_tokens_are_taken(token):
    assert len(check(token).id) == 32


def test_a_token_is_known_again_by_its_id_whatever_else_it_says():
    first, renewed, other = (
        check(mint()),
        check(mint(exp=int(NOW) + 60)),
        check(mint(jti="other")),
    )

    assert first.id == renewed.id
    assert first.id != other.id
    assert (first.expires, renewed.expires) == (NOW + 600, NOW + 60)


@pytest.mark.parametrize("jti", [None, ""])
def test_a_token_without_an_id_is_known_again_although_its_signature_was_changed(jti):
    """A signature of an elliptic curve has a twin that is as good."""
    token = mint(algorithm="ES256", jti=jti)
    signed, _, signature = token.rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    r, s = (int.from_bytes(raw[at : at + 32]) for at in (0, 32))
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    twin = f"{signed}.{encoded(r.to_bytes(32) + (order - s).to_bytes(32))}"

    assert decode_dss_signature(encode_dss_signature(r, s)) == (r, s)
    assert twin != token
    assert check(twin) == check(token)
    assert check(mint(algorithm="ES256", jti=jti, iat=int(NOW) - 1)).id != check(token).id


@given(st.text(max_size=200) | st.lists(st.binary(max_size=40), max_size=4))
def test_noise_is_refused_and_never_a_fault(noise):
    text = noise if isinstance(noise, str) else ".".join(map(encoded, noise))
    with pytest.raises(RefusedError):
        check(text)


@given(st.data())
def test_no_change_of_a_good_token_is_taken(data):
    token = mint()
    at = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.sampled_from("ABCxyz019-_.="))
    changed = token[:at] + letter + token[at + 1 :]
    if changed != token:
        with pytest.raises(RefusedError):
            check(changed)
