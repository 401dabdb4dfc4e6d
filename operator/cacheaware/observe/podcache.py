"""All pods of the namespaces that hold scalers, kept current by one list and watch each.

A cache of our own, because an index of kopf over pods fills in quadratic time.
"""

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from cacheaware.backoff import delay
from cacheaware.kube import BACKING_OFF, Kube, KubeError
from cacheaware.observe.selector import Selector
from cacheaware.pods import PodRecord, pod_record

log = logging.getLogger(__name__)

IDLE_SECONDS = 75.0
"""Bookmarks come each minute: a stream that is silent for longer is dead."""
SERVER_SECONDS = 300
RETRY_CAP_SECONDS = 60.0
NAME = attrgetter("name")
Sleep = Callable[[float], Any]


class NamespacePods:
    """The pods of one namespace."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        *,
        idle_seconds: float = IDLE_SECONDS,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.namespace = namespace
        self.pods: dict[str, PodRecord] = {}
        self._labelled: dict[tuple[str, str], dict[str, PodRecord]] = {}
        self._selected: dict[Selector, tuple[PodRecord, ...]] = {}
        """What was selected since a pod last changed: in most rounds none has."""
        self.listed = False
        self.alive_at = clock()
        """When the stream was last known to work."""
        self.fault: str | None = None
        """Why the pods can't be listed; None while they can."""
        self._tried_at = self.alive_at
        self._kube = kube
        self._idle_seconds = idle_seconds
        self._sleep = sleep
        self._clock = clock

    @property
    def path(self) -> str:
        """The collection's path."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    async def run(self) -> None:
        """Keep the pods current until cancelled; each failure lists anew, slower each time."""
        failures = 0
        while True:
            try:
                version = await self.list_all()
                failures = 0
                await self.follow(version)
            except KubeError as error:
                self._tried_at = self._clock()
                if error.reason != BACKING_OFF:
                    self.fault = str(error)
                failures += 1
                wait = delay(failures, RETRY_CAP_SECONDS, error.retry_after)
                log.warning("pods of %s: %s; listed again soon", self.namespace, error)
                await self._sleep(wait * (1 + random.random() / 4))  # noqa: S311 - jitter

    async def list_all(self) -> str:
        """Read every pod and forget those that are gone; returns the resourceVersion."""
        found: dict[str, PodRecord] = {}
        version = ""
        async for page in self._kube.pages(self.path):
            version = page["metadata"]["resourceVersion"]
            found |= {record.uid: record for record in map(pod_record, page.get("items") or ())}
        self.pods, self._labelled, self._selected = {}, {}, {}
        for record in found.values():
            self._put(record)
        self.listed, self.fault, self.alive_at = True, None, self._clock()
        return version

    async def follow(self, version: str) -> None:
        """Watch from a version on, over as many streams as the server makes of it.

        Raises:
            KubeError: the stream broke, or the version is too old (410).
        """
        while True:
            query = {"resourceVersion": version, "timeoutSeconds": SERVER_SECONDS}
            began = self._clock()
            async for event in self._kube.watch(self.path, query, idle_seconds=self._idle_seconds):
                self.alive_at = self._clock()
                version = self.apply(event)
            if self._clock() - began < 1.0:  # a server that ends streams at once is not hammered
                await self._sleep(1.0)

    def apply(self, event: Mapping[str, Any]) -> str:
        """Take in one event; returns its resourceVersion."""
        body = event["object"]
        if event["type"] == "DELETED":
            self._drop(body["metadata"]["uid"])
        elif event["type"] != "BOOKMARK":
            self._put(pod_record(body))
        return str(body["metadata"]["resourceVersion"])

    @property
    def turned_at(self) -> float:
        """When the stream worked or failed last: an API server that refuses makes none dead."""
        return max(self.alive_at, self._tried_at)

    def select(self, selector: Selector) -> tuple[PodRecord, ...]:
        """The pods that a selector matches and that are not finished, by name."""
        known = self._selected.get(selector)
        if known is None:
            known = self._selected[selector] = self._select(selector)
        return known

    def _select(self, selector: Selector) -> tuple[PodRecord, ...]:
        """They are looked up by a label, where the selector names one's value."""
        pair = selector.pair
        found = self.pods if pair is None else self._labelled.get(pair, {})
        chosen = (one for one in found.values() if selector.matches(one.labels))
        return tuple(sorted((one for one in chosen if not one.finished), key=NAME))

    def _put(self, record: PodRecord) -> None:
        self._drop(record.uid)
        self.pods[record.uid] = record
        for pair in record.labels.items():
            self._labelled.setdefault(pair, {})[record.uid] = record

    def _drop(self, uid: str) -> None:
        self._selected.clear()
        record = self.pods.pop(uid, None)
        for pair in record.labels.items() if record else ():
            there = self._labelled[pair]
            del there[uid]
            if not there:
                del self._labelled[pair]


class PodCache:
    """The namespaces of all scalers; one is watched as soon as it holds a scaler."""

    def __init__(self, kube: Kube, **options: Any) -> None:
        self._kube = kube
        self._options = options
        self._watched: dict[str, tuple[NamespacePods, asyncio.Task[None]]] = {}

    def watch_only(self, namespaces: Iterable[str]) -> None:
        """Start what is missing, stop what is no longer needed, and start again what died."""
        wanted = set(namespaces)
        for namespace in set(self._watched) - wanted:
            self._watched.pop(namespace)[1].cancel()
        for namespace in wanted:
            known = self._watched.get(namespace)
            if known is None or known[1].done():
                pods = known[0] if known else NamespacePods(self._kube, namespace, **self._options)
                task = asyncio.create_task(pods.run(), name=f"pods of {namespace}")
                task.add_done_callback(report)
                self._watched[namespace] = (pods, task)

    def listed(self, namespace: str) -> bool:
        """Whether the namespace's pods have been read at least once."""
        return namespace in self._watched and self._watched[namespace][0].listed

    def fault(self, namespace: str) -> str | None:
        """Why a namespace's pods can't be listed; None while they can or it is not known yet."""
        return self._watched[namespace][0].fault if namespace in self._watched else None

    def all_asked(self) -> bool:
        """Whether every watched namespace has been read, or refused with a reason."""
        return all(pods.listed or pods.fault for pods, _ in self._watched.values())

    def silent_for(self, now: float) -> float:
        """Seconds since the most silent stream was known to work; 0 without streams."""
        return max((now - pods.alive_at for pods, _ in self._watched.values()), default=0.0)

    def stuck_for(self, now: float) -> float:
        """Seconds since the stream that is stuck longest worked or failed; 0 without streams."""
        return max((now - pods.turned_at for pods, _ in self._watched.values()), default=0.0)

    def select(self, namespace: str, selector: Selector) -> tuple[PodRecord, ...]:
        """The pods of a target that are not finished, by name."""
        watched = self._watched.get(namespace)
        return () if watched is None else watched[0].select(selector)

    async def close(self) -> None:
        """Stop all streams."""
        tasks = [task for _, task in self._watched.values()]
        self._watched.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def report(task: asyncio.Task[None]) -> None:
    """Say why a stream's task ended when it should not have."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s ended: %s", task.get_name(), json.dumps(str(error)))
