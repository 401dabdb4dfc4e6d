"""Looks twice at the engines of live pods, through the API server's proxy as `kubectl` does it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cacheaware.doctor.findings import Finding, Severity
from cacheaware.doctor.observe import belongs, is_alive, listed, read_workload, states_of
from cacheaware.kube import Kube, KubeError
from cacheaware.observe.direct import MAX_BYTES
from cacheaware.observe.observer import Access, engine_paths
from cacheaware.pods import PodRecord, pod_record
from cacheaware_sidecar.health import Look, Looks, look

ANSWER_S = 5.0
BEYOND_PAGES: Final = {
    "canary-drift": "compare weights, quantisation and engine flags with those of a healthy pod,"
    " and ask both with `cacheaware probe canary`; restart the pod if it alone has drifted",
    "relief": "it comes back by itself; more replicas, if it happens again",
}
"""What a sidecar finds that no page shows, and what to do about it."""
Page = tuple[float, Look] | str
"""When it was read and what it tells, or why there is none."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Pods that were looked at."""

    looks: dict[str, Looks]
    """By subject, such as `pod/chat-1`."""
    unread: tuple[Finding, ...]
    told: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    """By subject, what its sidecar finds that no page shows."""


async def read_pod(kube: Kube, namespace: str, name: str) -> PodRecord | None:
    """A pod; None where there is none.

    Raises:
        KubeError: the API failed.
    """
    try:
        return pod_record(await kube.get(f"/api/v1/namespaces/{namespace}/pods/{name}"))
    except KubeError as error:
        if error.status == 404:
            return None
        raise


async def read_pods(kube: Kube, kind: str, namespace: str, name: str) -> list[PodRecord]:
    """The pods of a workload that run; none where it does not exist.

    Raises:
        KubeError: the API failed.
    """
    workload = await read_workload(kube, kind, namespace, name)
    if workload is None:
        return []
    bodies = await listed(kube, f"/api/v1/namespaces/{namespace}/pods") or []
    return [pod_record(one) for one in bodies if belongs(one, workload) and is_alive(one)]


async def look_twice(
    kube: Kube,
    pods: Iterable[PodRecord],
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Seen:
    """Read each pod's page, wait, and read it again.

    A pod that answers the second time only is judged by that page; one that does not answer at
    all is told as such, and spoils only itself.
    """
    records = list(pods)
    before = await asyncio.gather(*(read_page(kube, one, clock) for one in records))
    if any(not isinstance(one, str) for one in before):
        await sleep(seconds)
    after = await asyncio.gather(*(read_page(kube, one, clock) for one in records))
    looks, unread = {}, []
    for record, first, last in zip(records, before, after, strict=True):
        subject = f"pod/{record.name}"
        if isinstance(last, str):
            unread.append(not_read(subject, last))
        elif isinstance(first, str):
            looks[subject] = Looks(last[1])
        else:
            looks[subject] = Looks(last[1], first[1], round(last[0] - first[0], 1))
    said = await asyncio.gather(*(sidecar_findings(kube, one) for one in records))
    found = {f"pod/{one.name}": told for one, told in zip(records, said, strict=True)}
    return Seen(looks, tuple(unread), found)


async def sidecar_findings(kube: Kube, pod: PodRecord) -> tuple[Finding, ...]:
    """What a pod's sidecar finds and its engine's page can't show; nothing where it is silent."""
    subject = f"pod/{pod.name}"
    return tuple(
        Finding(one.id, Severity(one.severity), subject, one.message, BEYOND_PAGES[one.id])
        for state in await states_of(kube, [pod])
        for one in state.findings
        if one.id in BEYOND_PAGES and one.severity in tuple(Severity)
    )


async def read_page(kube: Kube, pod: PodRecord, clock: Callable[[], float]) -> Page:
    """A pod's page, where the pod itself says it is, else at port 8000."""
    (port, *_), path = engine_paths(pod, Access())
    where = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}:{port}/proxy{path}"
    try:
        content = await kube.content(where, MAX_BYTES, seconds=ANSWER_S)
    except KubeError as error:
        return f"port {port}{path}: {error}"
    return clock(), look(content)


def not_read(subject: str, why: str) -> Finding:
    """A pod whose page can't be read: that says nothing of its health."""
    return Finding(
        "page-unread",
        Severity.INFO,
        subject,
        f"its metrics page was not read: {why}",
        "the way through the API server needs `get` on pods/proxy; a page that wants a key can be"
        " given as a file with --page",
    )
