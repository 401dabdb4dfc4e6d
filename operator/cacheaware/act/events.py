"""Kubernetes Events on a CacheAwareScaler: one per transition, repeated ones counted."""

import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cacheaware import names
from cacheaware.kube import Kube, KubeError
from cacheaware_sidecar.clip import clipped

log = logging.getLogger(__name__)

NORMAL = "Normal"
WARNING = "Warning"
MESSAGE_LIMIT = 1024
"""The API refuses longer messages."""
AGGREGATE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that events are about."""

    namespace: str
    name: str
    uid: str


@dataclass(slots=True)
class _Sent:
    name: str
    count: int
    at: float


class Events:
    """Sends events; a failure is logged and costs nothing else."""

    def __init__(
        self, kube: Kube, instance: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kube = kube
        self._instance = instance
        self._clock = clock
        self._sent: dict[tuple[str, str], _Sent] = {}

    async def send(self, subject: Subject, kind: str, reason: str, message: str) -> None:
        """Report a transition; the same reason within an hour raises the count of its event."""
        sent = self._sent.get((subject.uid, reason))
        try:
            if sent is not None and self._clock() - sent.at < AGGREGATE_SECONDS:
                await self._repeat(subject, sent, message)
            else:
                await self._first(subject, kind, reason, message)
        except KubeError as error:
            log.warning("event %s of %s/%s: %s", reason, subject.namespace, subject.name, error)

    def forget(self, uid: str) -> None:
        """A scaler is gone."""
        self._sent = {key: sent for key, sent in self._sent.items() if key[0] != uid}

    async def _first(self, subject: Subject, kind: str, reason: str, message: str) -> None:
        body = event_body(subject, kind, reason, message)
        body["reportingInstance"] = self._instance
        await self._kube.create(collection(subject), body)
        self._sent[subject.uid, reason] = _Sent(body["metadata"]["name"], 1, self._clock())

    async def _repeat(self, subject: Subject, sent: _Sent, message: str) -> None:
        sent.count += 1
        text = clipped(message, MESSAGE_LIMIT)
        body = {"count": sent.count, "lastTimestamp": timestamp(), "message": text}
        try:
            await self._kube.patch(f"{collection(subject)}/{sent.name}", body)
        except KubeError as error:
            if error.status == 404:  # the API forgets events after an hour or so
                self._sent = {key: one for key, one in self._sent.items() if one is not sent}
            raise


def event_body(subject: Subject, kind: str, reason: str, message: str) -> dict[str, Any]:
    """A core/v1 Event, which `kubectl describe` shows."""
    now = timestamp()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{subject.name[:200]}.{uuid.uuid4().hex[:16]}",
            "namespace": subject.namespace,
        },
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "type": kind,
        "reason": reason,
        "message": clipped(message, MESSAGE_LIMIT),
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": names.FIELD_MANAGER},
        "reportingComponent": f"{names.GROUP}/{names.FIELD_MANAGER}",
    }


def collection(subject: Subject) -> str:
    """Where the events of an object live."""
    return f"/api/v1/namespaces/{subject.namespace}/events"


def timestamp() -> str:
    """Now, as the API writes times."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
