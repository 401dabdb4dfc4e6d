"""Tokens for the control calls: each is the operator's own account's, made for one pod alone.

A sidecar accepts it because of who it is from (`sub`) and whom it is for (`aud`, the pod's uid), so
a token that one pod has seen is of no use at another. Source: Kubernetes, TokenRequest.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cacheaware.kube import Kube, KubeError
from cacheaware_sidecar.tokens import AUDIENCE

SECONDS = 600
"""The shortest life that the API grants."""
SPARE_SECONDS = 120.0
"""A token is renewed so long before its end."""


@dataclass(frozen=True, slots=True)
class Account:
    """The operator's ServiceAccount."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Where its tokens are made."""
        return f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}/token"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and until when it is used, in monotonic seconds."""

    text: str = field(repr=False)
    until: float


class Tokens:
    """Makes tokens and keeps them while they last.

    Args:
        kube: the API.
        account: None outside a cluster, where there is no account to make tokens of.
        clock: monotonic seconds.
    """

    def __init__(
        self, kube: Kube, account: Account | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kube = kube
        self._account = account
        self._clock = clock
        self._kept: dict[str, Token] = {}

    async def of(self, uid: str) -> str:
        """A token for the pod of this uid.

        Raises:
            KubeError: none can be made.
        """
        kept, now = self._kept.get(uid), self._clock()
        if kept is None or now >= kept.until:
            text = await self._make(uid)
            self._kept = {key: one for key, one in self._kept.items() if one.until > now}
            self._kept[uid] = kept = Token(text, now + SECONDS - SPARE_SECONDS)
        return kept.text

    def forget(self, uid: str) -> None:
        """Make another one next time: the sidecar takes none again whose cordon has ended."""
        self._kept.pop(uid, None)

    async def _make(self, uid: str) -> str:
        if self._account is None:
            raise KubeError(0, "NoAccount", "the operator's own ServiceAccount is not known")
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [f"{AUDIENCE}{uid}"], "expirationSeconds": SECONDS},
        }
        made = await self._kube.create(self._account.path, body)
        return str(made["status"]["token"])
