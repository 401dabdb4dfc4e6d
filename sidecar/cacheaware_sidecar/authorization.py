"""Who may make control calls: the operator's ServiceAccount alone, with a token for this pod."""

import asyncio
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from cacheaware_sidecar import tokens
from cacheaware_sidecar.cluster_keys import ClusterKeys
from cacheaware_sidecar.http_server import Request
from cacheaware_sidecar.lifecycle import UsedToken
from cacheaware_sidecar.refusal import RefusedError
from cacheaware_sidecar.settings import Settings
from cacheaware_sidecar.small_files import read_token
from cacheaware_sidecar.tokens import AUDIENCE, Expected

SCHEME: Final = "bearer"


class Authorization:
    """Checks the token of a call."""

    def __init__(
        self, settings: Settings, keys: ClusterKeys, *, wall: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._wall = wall

    async def check(self, request: Request) -> UsedToken:
        """Which token the call carries.

        Raises:
            RefusedError: 401, 403 or 503, with the reason.
        """
        account = self._settings.operator_account
        if account is None:
            raise RefusedError(
                403, "control calls are not enabled: CACHEAWARE_OPERATOR_ACCOUNT is not set"
            )
        token = tokens.split(bearer(request))
        expected = self._expected(account)
        keys = await self._keys.for_key(token.key_id)
        # In a thread: loading takes long where little CPU is left, and probes must be answered.
        await asyncio.to_thread(import_module, "jwt")
        return tokens.verify(token, keys, expected, self._wall())

    def _expected(self, account: str) -> Expected:
        """What this pod's own token says about the cluster and the pod."""
        own = _own_claims(Path(self._settings.token_dir) / "token")
        uid = self._settings.pod_uid or _pod_uid(own)
        if uid is None:
            raise RefusedError(
                403,
                "control calls are not enabled: the pod's uid is unknown; set CACHEAWARE_POD_UID",
            )
        issuer = own.get("iss")
        if not isinstance(issuer, str) or not issuer:
            path = f"{self._settings.token_dir}/token"
            raise RefusedError(503, f"the pod's own token is not available ({path})")
        return Expected(account=account, issuer=issuer, audience=AUDIENCE + uid)


def bearer(request: Request) -> str:
    """The token of the call's one Authorization header.

    Raises:
        RefusedError: there is none, or more than one.
    """
    if len(request.authorization) != 1:
        raise RefusedError(401, "allowed: one Authorization header, with a bearer token")
    scheme, _, token = request.authorization[0].strip().partition(" ")
    if scheme.lower() != SCHEME:
        raise RefusedError(401, "allowed: Authorization: Bearer TOKEN")
    return token.strip()


def _own_claims(path: Path) -> dict[str, Any]:
    """Of the pod's own token, which comes from the kubelet; empty where there is none."""
    try:
        return dict(tokens.split(read_token(path) or "").claims)
    except RefusedError:
        return {}


def _pod_uid(claims: Any) -> str | None:
    """Tokens of pods name their pod."""
    for name in ("kubernetes.io", "pod", "uid"):
        claims = claims.get(name) if isinstance(claims, dict) else None
    return claims if isinstance(claims, str) and claims else None
