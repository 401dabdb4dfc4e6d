"""Other installations of the operator: whether one that owns a scaler still runs.

It does while its Lease changes. As with our own, that is judged by our monotonic clock alone.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from cacheaware.kube import Kube, KubeError
from cacheaware.paths import lease_path

DEAD_SECONDS = 60.0
"""A Lease that has not changed, or has not been there, for so long is nobody's: four times what
any operator of ours goes without renewing it, and longer than it takes to replace one."""
ASKED_SECONDS = 5.0
"""A Lease is read no more often than this."""
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Sighting:
    """A Lease as it was read last."""

    version: str
    """Its resourceVersion; empty where there is none."""
    since: float
    """When it was first seen so."""
    asked: float
    unreadable: str = ""
    """Why it could not be read the last time."""


class Owners:
    """Tells the living installations from the dead."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._seen: dict[str, Sighting] = {}

    async def alive(self, installation: str) -> str | None:
        """Why an installation must be taken to run, in a few words; None: it is gone."""
        if not NAMESPACE.fullmatch(installation):
            return "that is no namespace's name"
        seen, now = self._seen.get(installation), self._clock()
        if seen is None or now - seen.asked >= ASKED_SECONDS:
            self._seen[installation] = seen = await self._look(installation, seen)
        if seen.unreadable:
            return f"whether it runs is not known: {seen.unreadable}"
        still = self._clock() - seen.since
        if still >= DEAD_SECONDS:
            return None
        return f"its Lease changed in the last {DEAD_SECONDS:.0f} s" if seen.version else "no Lease"

    async def _look(self, installation: str, before: Sighting | None) -> Sighting:
        now, version, trouble = self._clock(), "", ""
        try:
            lease = await self._kube.get(lease_path(installation))
            version = str(lease["metadata"]["resourceVersion"])
        except KubeError as error:
            trouble = "" if error.status == 404 else f"{error.status} {error.reason}"
        if trouble:
            return Sighting(
                before.version if before else "", before.since if before else now, now, trouble
            )
        same = before is not None and before.version == version
        return Sighting(version, before.since if before and same else now, now)
