"""Which pods go first: the pod-deletion-cost, set on victims just before a shrink.

A cost of somebody else's is kept in our mark and put back; ours never outlives its purpose.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from cacheaware import names
from cacheaware.kube import BACKING_OFF, Kube, KubeError
from cacheaware.pods import PodRecord

log = logging.getLogger(__name__)

LOWEST = -(2**31) + 1
"""int32; one above the minimum, so that a tool that compares with it is not surprised."""


def marked(record: PodRecord, rank: int, owner: str) -> dict[str, Any]:
    """The patch that makes a victim go first; the cost it had is kept in the mark."""
    before = record.deletion_cost if record.deletion_cost_by is None else kept_cost(record)
    mark = {"by": owner, "was": before}
    return annotated(LOWEST + rank, json.dumps(mark, separators=(",", ":")))


def restored(record: PodRecord) -> dict[str, Any]:
    """The patch that takes our cost back and leaves what was there before us."""
    return annotated(kept_cost(record), None)


def annotated(cost: int | None, mark: str | None) -> dict[str, Any]:
    """The patch that sets a cost and a mark; None takes one away."""
    text = None if cost is None else str(cost)
    annotations = {names.DELETION_COST: text, names.DELETION_COST_OWNER: mark}
    return {"metadata": {"annotations": annotations}}


def mark_of(record: PodRecord) -> dict[str, Any]:
    """What stands in the mark beside a cost of ours; empty where it can't be read."""
    try:
        mark = json.loads(record.deletion_cost_by or "{}")
    except ValueError:
        return {}
    return mark if isinstance(mark, dict) else {}


def kept_cost(record: PodRecord) -> int | None:
    """The foreign cost that our mark remembers; None where there was none."""
    before = mark_of(record).get("was")
    return before if isinstance(before, int) else None


def marked_by(record: PodRecord) -> str | None:
    """The uid of the scaler that chose this pod; None where none did, or the pod is going."""
    if record.deletion_cost_by is None or record.terminating:
        return None
    return str(mark_of(record).get("by", ""))


async def mark_victims(kube: Kube, victims: Sequence[PodRecord], owner: str) -> None:
    """Set the costs of victims, the first to go lowest.

    Raises:
        KubeError: one could not be marked; the shrink must not be written.
    """
    for rank, record in enumerate(victims):
        if record.deletion_cost is not None and record.deletion_cost_by is None:
            log.info("pod %s: its deletion cost %d is set aside", record.name, record.deletion_cost)
        await kube.patch(pod_path(record), marked(record, rank, owner))


async def sweep(kube: Kube, records: Iterable[PodRecord]) -> None:
    """Take our costs back from these pods, as far as that can be done now."""
    for record in records:
        try:
            await kube.patch(pod_path(record), restored(record))
        except KubeError as error:
            if error.status != 404 and error.reason != BACKING_OFF:
                log.warning("pod %s keeps a deletion cost of ours: %s", record.name, error)


def pod_path(record: PodRecord) -> str:
    """Where a pod is patched."""
    return f"/api/v1/namespaces/{record.namespace}/pods/{record.name}"
