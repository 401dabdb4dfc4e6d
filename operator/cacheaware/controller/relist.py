"""The belt to kopf's watches: every two minutes the same objects are listed by ourselves.

A change that a watch missed takes effect then; a watch that still has not delivered it at the next
list is dead, and the liveness probe says so.
"""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from cacheaware import names
from cacheaware.controller.handlers import HPA, SCALED_OBJECT
from cacheaware.controller.registry import Foreign, Registry, Scaler, foreign_record, scaler_record
from cacheaware.kube import Kube, KubeError

log = logging.getLogger(__name__)

EVERY_SECONDS = 120.0
FIRST_SECONDS = 5.0
"""Until the scalers were listed once."""
HPA_KIND = "HorizontalPodAutoscaler"
KEDA_KIND = "ScaledObject"
SCALERS = (names.GROUP, names.VERSION, names.PLURAL)
Record = Scaler | Foreign | None


class Relist:
    """Lists scalers and foreign autoscalers and corrects the registry."""

    def __init__(self, kube: Kube, registry: Registry, namespaces: Sequence[str]) -> None:
        self._kube = kube
        self._registry = registry
        self._namespaces = namespaces
        self._behind: dict[str, str] = {}
        """What the watch had told of objects that had moved on by the last list."""
        self.watch_dead = False
        self.listed = False
        """Whether the scalers have been listed at least once."""

    async def once(self) -> None:
        """One pass over all three kinds; a kind that can't be listed keeps what is known."""
        behind: dict[str, str] = {}
        for resource, known, parse in (
            (SCALERS, self._registry.scalers, _scaler),
            (HPA, self._registry.foreign, lambda body: foreign_record(HPA_KIND, body)),
            (SCALED_OBJECT, self._registry.foreign, lambda body: foreign_record(KEDA_KIND, body)),
        ):
            try:
                behind |= await self._correct(resource, known, parse)
                self.listed = self.listed or resource == SCALERS
            except KubeError as error:
                if error.status != 404:  # KEDA need not be there
                    log.warning("%s could not be listed: %s", resource[2], error)
        still = {uid for uid, told in behind.items() if self._behind.get(uid) == told}
        if still:
            log.error("a watch has delivered nothing of %d objects since the last list", len(still))
        self._behind, self.watch_dead = behind, bool(still)

    async def _correct(
        self,
        resource: tuple[str, str, str],
        known: dict[str, Any],
        parse: Callable[[Any], Record],
    ) -> dict[str, str]:
        there_before, told_before = set(known), dict(self._registry.delivered)
        listed: dict[str, Scaler | Foreign] = {}
        async for body in self._bodies(resource):
            record = parse(body)
            if record is not None and "deletionTimestamp" not in body["metadata"]:
                listed[record.uid] = record
        for uid in there_before - set(listed):
            if belongs(known.get(uid), resource):
                self._registry.drop(uid)
        told = self._registry.delivered
        behind = {
            uid: told.get(uid, "")
            for uid, one in listed.items()
            if told.get(uid) != one.version and told.get(uid) == told_before.get(uid)
        }
        for uid in behind:
            self._registry.put(listed[uid])
        return behind

    async def _bodies(self, resource: tuple[str, str, str]) -> AsyncIterator[Any]:
        group, version, plural = resource
        spaces = [f"/namespaces/{one}" for one in self._namespaces] or [""]
        for space in spaces:
            async for page in self._kube.pages(f"/apis/{group}/{version}{space}/{plural}"):
                for body in page.get("items") or ():
                    yield body


def _scaler(body: Any) -> Record:
    return scaler_record(body)


def belongs(record: Record, resource: tuple[str, str, str]) -> bool:
    """Whether a known record is of the listed kind: HPAs and ScaledObjects share a registry."""
    if isinstance(record, Foreign):
        return resource == (HPA if record.kind == HPA_KIND else SCALED_OBJECT)
    return record is not None and resource == SCALERS
