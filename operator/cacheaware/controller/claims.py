"""Which installation serves a scaler: the one that its owner annotation names, while that runs.

A scaler in Scale is claimed before anything is done for it, by a patch on the very version that
was read, so that of two installations one wins. A claim is looked up anew whenever our Lease had
lapsed: only then may another installation have taken it over.
"""

import logging
from dataclasses import dataclass

from cacheaware import names
from cacheaware.act.lease import Lease
from cacheaware.act.owners import Owners
from cacheaware.controller.registry import Registry, Scaler, scaler_record
from cacheaware.kube import BACKING_OFF, LEASE_NOT_HELD, Kube, KubeError
from cacheaware.paths import scalers_path

log = logging.getLogger(__name__)

TRIES = 3
"""Somebody else's write may come between a read and our claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Whose a scaler is."""

    tenure: int | None = None
    """It is ours, as we know since this tenure of the Lease; None: nothing is done for it."""
    elsewhere: str | None = None
    """The other installation, as a noun."""
    fault: str | None = None
    """Why it could not be claimed."""


class Claims:
    """Claims scalers.

    Args:
        kube: the API.
        owners: tells whether other installations run.
        lease: ours.
        registry: is told of a claim before the watch tells it.
        installation: our own name: the namespace of our Lease.
    """

    def __init__(
        self, kube: Kube, owners: Owners, lease: Lease, registry: Registry, installation: str
    ) -> None:
        self._kube = kube
        self._owners = owners
        self._lease = lease
        self._registry = registry
        self._installation = installation

    def ours(self, scaler: Scaler) -> bool:
        """Whether a scaler's record says so."""
        return scaler.installation == self._installation

    async def standing(self, scaler: Scaler, tenure: int | None) -> Standing:
        """Look whose a scaler is, and claim one in Scale that is nobody's.

        Args:
            scaler: as this round knows it.
            tenure: what `Standing.tenure` was in the round before.
        """
        named = scaler.installation
        other = named is not None and not self.ours(scaler)
        if other and (why := await self._owners.alive(named or "")) is not None:
            told = f"the installation in {named} (annotation {names.OWNER}; {why})"
            return Standing(elsewhere=told)
        if scaler.policy.mode != "Scale":
            return Standing()
        if self.ours(scaler) and tenure is not None and tenure == self._lease.tenure:
            return Standing(tenure=tenure)
        return await self._claimed(scaler, self._lease.tenure)

    async def _claimed(self, scaler: Scaler, tenure: int) -> Standing:
        try:
            found = await self._read_and_claim(scaler)
        except KubeError as error:
            if error.reason not in {BACKING_OFF, LEASE_NOT_HELD}:
                log.warning("%s was not claimed: %s", scaler, error)
            return Standing(fault=f"the scaler could not be claimed: {error}")
        if self._registry.scalers.get(scaler.uid) is scaler:  # else the watch knows more
            self._registry.put(found)
        if not self.ours(found):
            return Standing(fault=f"the installation in {found.installation} has just claimed it")
        return Standing(tenure=tenure)

    async def _read_and_claim(self, scaler: Scaler, tries: int = TRIES) -> Scaler:
        """The scaler as it is after our claim, or as another has just claimed it."""
        path = f"{scalers_path(scaler.namespace)}/{scaler.name}"
        found = scaler_record(await self._kube.get(path))
        if found.uid != scaler.uid:
            raise KubeError(404, "NotFound", "it was deleted and created anew")
        if self.ours(found) or found.installation != scaler.installation:
            return found
        if found.installation is not None:
            log.warning("%s: taken over from %s, which is gone", scaler, found.installation)
        claim = {names.OWNER: self._installation}
        meta = {"uid": found.uid, "resourceVersion": found.version, "annotations": claim}
        try:
            return scaler_record(await self._kube.patch(path, {"metadata": meta}))
        except KubeError as error:
            if error.reason != "Conflict" or tries <= 1:
                raise
        return await self._read_and_claim(scaler, tries - 1)
