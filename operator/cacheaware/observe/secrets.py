"""Keys of engines that protect their metrics: one GET of the one named Secret, never logged."""

import base64
import binascii
import time
from collections.abc import Callable
from dataclasses import dataclass

from cacheaware.kube import Kube, KubeError

AGAIN_SECONDS = 4.0
"""Many pods refuse a key in the same round: the Secret is read again once for all of them."""


@dataclass(frozen=True, slots=True)
class SecretRef:
    """`spec.engine.authorizationSecretRef`, in the CacheAwareScaler's own namespace."""

    namespace: str
    name: str
    key: str


class SecretError(Exception):
    """The key could not be read; says which Secret, never what is in it."""


class Secrets:
    """Keys already read; one is read again when a pod answers 401."""

    def __init__(self, kube: Kube, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._keys: dict[SecretRef, tuple[str, float]] = {}

    async def bearer(self, ref: SecretRef, *, again: bool = False) -> str:
        """The bearer token.

        Raises:
            SecretError: there is no such Secret or key, or we may not read it.
        """
        known = self._keys.get(ref)
        if known is None or (again and self._clock() - known[1] > AGAIN_SECONDS):
            known = self._keys[ref] = (await self._read(ref), self._clock())
        return known[0]

    async def _read(self, ref: SecretRef) -> str:
        path = f"/api/v1/namespaces/{ref.namespace}/secrets/{ref.name}"
        try:
            data = (await self._kube.get(path)).get("data") or {}
        except KubeError as error:
            raise SecretError(f"Secret {ref.name}: {error.status} {error.reason}") from None
        if ref.key not in data:
            raise SecretError(f"Secret {ref.name} has no key {ref.key!r}")
        try:
            return base64.b64decode(data[ref.key], validate=True).decode().strip()
        except (binascii.Error, UnicodeDecodeError):
            raise SecretError(f"Secret {ref.name}, key {ref.key!r}: not text") from None
