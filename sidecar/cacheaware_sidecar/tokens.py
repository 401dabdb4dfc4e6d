"""Whether a control call comes from the operator: its ServiceAccount token, checked offline.

Anyone may mint tokens with any audience for an account of their own, so the account alone tells
who calls, and the audience, which names this pod, keeps a token from being used on another one.
Only signatures of RSA and elliptic curves count: with a public key as its secret an HMAC could be
made by everybody. Nothing is read from a token that says where its key is.

PyJWT and cryptography cost 10 MB; they are loaded by the first token that is worth checking.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cacheaware_sidecar.clip import clipped
from cacheaware_sidecar.lifecycle import LEEWAY_S, UsedToken
from cacheaware_sidecar.refusal import RefusedError

AUDIENCE: Final = "cacheaware.dev/pod/"
"""Of a token for a pod, with the pod's uid behind it."""
Jwk = Mapping[str, Any]
"""A public key as RFC 7517 writes it."""
KEYS_OF: Final = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
}
"""Which kind of key, and which curve, an algorithm goes with (RFC 7518, 3.3 and 3.4)."""
LEAST_RSA_BITS: Final = 2048
SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]+")
SHOWN: Final = 120
"""Characters of a claim: a name of an account is longer than most values."""
LATEST: Final = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a token must say."""

    account: str
    issuer: str
    audience: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The parts of a token, of which nothing is proven yet."""

    text: str
    header: Mapping[str, Any]
    claims: Mapping[str, Any]

    @property
    def key_id(self) -> str:
        """Of the key that signed it; empty where it doesn't say."""
        key_id = self.header.get("kid")
        return key_id if isinstance(key_id, str) else ""


def split(text: str) -> Token:
    """Takes a token apart.

    Raises:
        RefusedError: it is none.
    """
    parts = text.split(".")
    if len(parts) != 3 or not all(map(SEGMENT.fullmatch, parts)):
        raise RefusedError(401, "this is no signed token")
    header, claims = (_object(part) for part in parts[:2])
    return Token(text=text, header=header, claims=claims)


def _object(part: str) -> dict[str, Any]:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise RefusedError(401, "the token's header or claims are no JSON object")
    return value


def verify(token: Token, keys: Iterable[Jwk], expected: Expected, now: float) -> UsedToken:
    """Checks a token against the cluster's published keys.

    Args:
        token: As it came.
        keys: All that the cluster publishes.
        expected: What it must say.
        now: Unix time in seconds.

    Returns:
        Which token it was, for the list of those that are spent.

    Raises:
        RefusedError: 401 where it isn't a good token of this cluster for this pod, 403 where it
            is one of another account.
    """
    algorithm = _algorithm(token)
    _check_signature(token, _key(token.key_id, algorithm, keys), algorithm)
    audience = expected.audience
    _check_claim(token, "iss", expected.issuer, [expected.issuer])
    # One audience and no other: a token for two pods is good at both.
    _check_claim(token, "aud", audience, [audience, [audience]])
    expires = _check_times(token, now)
    if token.claims.get("sub") != expected.account:
        told = _shown(token.claims.get("sub"))
        raise RefusedError(403, f"the token is of {told}; allowed: {expected.account}")
    return UsedToken(_identity(token), expires)


def _algorithm(token: Token) -> str:
    algorithm = token.header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in KEYS_OF:
        raise RefusedError(401, f"the token's algorithm; allowed: {', '.join(KEYS_OF)}")
    if "crit" in token.header or "b64" in token.header:
        raise RefusedError(401, "the token's header asks for an extension; allowed: none")
    return algorithm


def _key(key_id: str, algorithm: str, keys: Iterable[Jwk]) -> Jwk:
    """The key that the token names, if the algorithm fits it."""
    named = [key for key in keys if key_id and key.get("kid") == key_id]
    if not named:
        raise RefusedError(401, "the token's key is none that the cluster publishes")
    fitting = [key for key in named if _fits(key, algorithm)]
    if not fitting:
        raise RefusedError(401, f"algorithm {algorithm} doesn't fit the token's key")
    return fitting[0]


def _fits(key: Jwk, algorithm: str) -> bool:
    kind, curve = KEYS_OF[algorithm]
    return (
        key.get("kty") == kind
        and (curve is None or key.get("crv") == curve)
        and key.get("alg", algorithm) == algorithm
        and key.get("use", "sig") == "sig"
    )


def _check_signature(token: Token, key: Jwk, algorithm: str) -> None:
    import jwt  # noqa: PLC0415 - 10 MB that a pod without control calls does without

    try:
        public = jwt.PyJWK(dict(key), algorithm)
        bits = public.key.key_size if KEYS_OF[algorithm][0] == "RSA" else LEAST_RSA_BITS
        if bits >= LEAST_RSA_BITS:
            jwt.PyJWS([algorithm]).decode_complete(token.text, public, [algorithm])
            return
    except (jwt.PyJWTError, ValueError, TypeError):
        raise RefusedError(401, "the token's signature is wrong") from None
    raise RefusedError(401, f"the token's key is shorter than {LEAST_RSA_BITS} bits")


def _check_claim(token: Token, name: str, allowed: str, forms: list[Any]) -> None:
    told = token.claims.get(name)
    if told not in forms:
        raise RefusedError(401, f"the token's {name} is {_shown(told)}; allowed: {allowed}")


def _check_times(token: Token, now: float) -> float:
    """When the token expires."""
    expires, earliest, issued = (_time(token, name) for name in ("exp", "nbf", "iat"))
    if expires is None:
        raise RefusedError(401, "the token never expires; allowed: one with exp")
    if now >= expires + LEEWAY_S:
        raise RefusedError(401, f"the token expired {now - expires:.0f} s ago")
    for begin in (earliest, issued):
        if begin is not None and now < begin - LEEWAY_S:
            raise RefusedError(401, f"the token is not valid for another {begin - now:.0f} s")
    return expires


def _time(token: Token, name: str) -> float | None:
    value = token.claims.get(name)
    if value is None:
        return None
    wrong = isinstance(value, bool) or not isinstance(value, int | float)
    if wrong or not abs(value) < LATEST:
        raise RefusedError(401, f"the token's {name} is {_shown(value)}; allowed: a time")
    return float(value)


def _identity(token: Token) -> str:
    """The same for the same token, however it is written.

    Without a jti it is made of what is signed, not of the signature: one of an elliptic curve
    can be changed into another one that is as good.
    """
    told = token.claims.get("jti")
    if told is not None and not isinstance(told, str):
        raise RefusedError(401, f"the token's jti is {_shown(told)}; allowed: a string")
    identity = f"jti {told}" if told else token.text.rpartition(".")[0]
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _shown(value: Any) -> str:
    return clipped(ascii(value), SHOWN)
