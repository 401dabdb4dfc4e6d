"""PodDisruptionBudgets: a cordon takes one disruption, and must never take the last."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cacheaware.kube import Kube, KubeError
from cacheaware.observe.selector import Selector, selector_of
from cacheaware.pods import PodRecord

KEPT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Budget:
    """One PodDisruptionBudget."""

    name: str
    selector: Selector
    allowed: int
    """Disruptions that it allows now; 0 where its status is not current."""
    healthy: int = 0
    """Pods that must stay Ready."""

    def spare(self, ready: int) -> int:
        """Of `ready` pods, how many may be cordoned without taking the last disruption.

        The budget's own count is a moment old: pods that we have just cordoned are not in it.
        """
        return max(0, min(self.allowed, ready - self.healthy) - 1)

    def __str__(self) -> str:
        return f"PodDisruptionBudget {self.name} allows {self.allowed} disruptions"


class Budgets:
    """Reads budgets when a pod is about to be cordoned, and keeps them for a few seconds."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._kept: dict[str, tuple[float, list[Budget]]] = {}

    async def guards(
        self, namespace: str, chosen: Sequence[str], records: Sequence[PodRecord]
    ) -> dict[str, str]:
        """Why pods can't be cordoned, by uid; those that were chosen keep what is spare.

        Args:
            namespace: of the pods.
            chosen: uids of the pods that are to be cordoned, the first to go first.
            records: the target's pods.
        """
        try:
            budgets = await self._read(namespace)
        except KubeError as error:
            why = f"the PodDisruptionBudgets can't be read: {error.reason}"
            return dict.fromkeys((record.uid for record in records), why)
        found: dict[str, str] = {}
        for budget in budgets:
            found |= guarded(budget, chosen, records)
        return found

    async def _read(self, namespace: str) -> list[Budget]:
        kept = self._kept.get(namespace)
        if kept is not None and self._clock() - kept[0] < KEPT_SECONDS:
            return kept[1]
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        found = [
            budget_of(body)
            async for page in self._kube.pages(path)
            for body in page.get("items") or ()
        ]
        self._kept[namespace] = (self._clock(), found)
        return found


def guarded(budget: Budget, chosen: Sequence[str], records: Sequence[PodRecord]) -> dict[str, str]:
    """The pods that a budget keeps from being cordoned, with the reason."""
    matching = [record.uid for record in records if budget.selector.matches(record.labels)]
    ready = sum(record.ready for record in records if record.uid in matching)
    free = [uid for uid in chosen if uid in matching][: budget.spare(ready)]
    return {uid: str(budget) for uid in matching if uid not in free}


def budget_of(body: Mapping[str, Any]) -> Budget:
    """Reduce a PodDisruptionBudget; one whose controller has not looked yet allows nothing."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    current = status.get("observedGeneration", 0) >= meta.get("generation", 0)
    allowed = int(status.get("disruptionsAllowed") or 0) if current else 0
    healthy = int(status.get("desiredHealthy") or 0)
    return Budget(meta["name"], selector_of(spec.get("selector") or {}), allowed, healthy)
