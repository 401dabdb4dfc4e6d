"""The Lease that says which operator may write. Held even by a single operator.

Another's lease is judged by our own monotonic clock since its record last changed, never by the
times in it: clocks of nodes differ.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from cacheaware import names
from cacheaware.kube import Kube, KubeError
from cacheaware.paths import lease_path, leases_path

log = logging.getLogger(__name__)

DURATION_SECONDS = 15
RENEW_SECONDS = 3.0
DEADLINE_SECONDS = 10.0
"""Not renewed for this long, we begin no write; the last ends before another takes over."""


class LeaseLostError(Exception):
    """The Lease could not be renewed in time, or another took it: this process must end."""


class Lease:
    """Acquires, renews and releases one Lease."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        identity: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._collection, self._path = leases_path(namespace), lease_path(namespace)
        self.identity = identity
        self._clock = clock
        self._held_until: float | None = None
        self._version = ""
        self._seen: tuple[str, float] = ("", 0.0)
        self.tenure = 0
        """Counts up whenever it is taken after it was not held."""

    def held(self) -> bool:
        """Whether we may write at this moment."""
        return self._held_until is not None and self._clock() < self._held_until

    async def run(self) -> None:
        """Acquire and keep the Lease until cancelled.

        Raises:
            LeaseLostError: it was held and no longer is.
        """
        while not await self.try_once():  # noqa: ASYNC110 - it polls the API, not a flag of ours
            await asyncio.sleep(RENEW_SECONDS)
        log.info("holding the Lease as %s", self.identity)
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if not await self.try_once() and not self.held():
                raise LeaseLostError(f"the Lease of {self.identity} could not be renewed")

    async def try_once(self) -> bool:
        """One attempt to take or renew; False where it failed or another holds it."""
        began = self._clock()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS / 2):
                taken = await self._attempt()
        except (KubeError, TimeoutError) as error:
            log.warning("Lease: %s", error or "no answer in time")
            return False
        if taken:
            self.tenure += not self.held()
            self._held_until = began + DEADLINE_SECONDS
        return taken

    async def release(self) -> None:
        """Give the Lease up, so that the next operator need not wait."""
        if not self.held():
            return
        self._held_until = None
        body = {"metadata": {"resourceVersion": self._version}, "spec": {"holderIdentity": ""}}
        try:
            await self._kube.patch(self._path, body, fenced=False)
        except KubeError as error:
            log.warning("the Lease was not released: %s", error)

    async def _attempt(self) -> bool:
        try:
            lease = await self._kube.get(self._path)
        except KubeError as error:
            if error.status != 404:
                raise
            return await self._write(None)
        return self._free(lease) and await self._write(lease)

    def _free(self, lease: dict[str, Any]) -> bool:
        spec, version = lease.get("spec") or {}, lease["metadata"]["resourceVersion"]
        if spec.get("holderIdentity") in {None, "", self.identity}:
            return True
        if self._held_until is not None:
            self._held_until = None
            raise LeaseLostError(f"{spec['holderIdentity']} took the Lease")
        if self._seen[0] != version:
            self._seen = (version, self._clock())
        expires = spec.get("leaseDurationSeconds") or DURATION_SECONDS
        return self._clock() - self._seen[1] > expires

    async def _write(self, lease: dict[str, Any] | None) -> bool:
        body = lease_body(self.identity, (lease or {}).get("spec") or {})
        try:
            if lease is None:
                body["metadata"] = {"name": names.LEASE}
                written = await self._kube.create(self._collection, body, fenced=False)
            else:
                version = lease["metadata"]["resourceVersion"]
                body["metadata"] = {"resourceVersion": version}
                written = await self._kube.patch(self._path, body, fenced=False)
        except KubeError as error:
            if error.status == 409:
                return False
            raise
        self._version = written["metadata"]["resourceVersion"]
        return True


def lease_body(identity: str, before: dict[str, Any]) -> dict[str, Any]:
    """The Lease as we write it; a change of holder counts as a transition."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    ours = before.get("holderIdentity") == identity
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "spec": {
            "holderIdentity": identity,
            "leaseDurationSeconds": DURATION_SECONDS,
            "renewTime": now,
            "acquireTime": (before.get("acquireTime") or now) if ours else now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if ours else 1),
        },
    }
