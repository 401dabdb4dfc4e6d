"""The doctor's looks at engines: from pages, and what they come to."""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from cacheaware.cli.cluster import NAME, checked_namespace, namespace_of, with_cluster
from cacheaware.cli.errors import BadInputError, attempt
from cacheaware.cli.inputs import STDIN
from cacheaware.cli.probe_files import Stored
from cacheaware.cli.scrape import read
from cacheaware.doctor.findings import Finding, Severity
from cacheaware.doctor.kv_health import health
from cacheaware.doctor.tail_latency import Case, Judged, Tail, judge, tail_of
from cacheaware.doctor.two_pages import compared
from cacheaware_sidecar.health import Looks, look

if TYPE_CHECKING:
    from cacheaware.doctor.pod_pages import Seen
    from cacheaware.kube import Kube
    from cacheaware.pods import PodRecord

PODS = frozenset({"pod", "pods", "po"})
LIVE_S = 10.0
"""Between two looks at live pods, where nothing else is said."""
NO_TAIL = Tail()
TIMEOUT_S = 5.0
LONGEST_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Pages:
    """What was named on the command line."""

    first: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    seconds: float | None = None
    attention: Path | None = None
    rope: tuple[Path, ...] = ()
    stored: Stored = field(default_factory=Stored)
    """What the last two hold."""


@dataclass(frozen=True, slots=True)
class Examined:
    """One engine, and what was found about it."""

    subject: str
    looks: Looks | None
    """None of a pod whose page could not be read, and of stored probes."""
    findings: tuple[Finding, ...]
    tail: Tail = NO_TAIL
    judged: tuple[Judged, ...] = ()
    is_engine: bool = True
    """Not of stored probes."""


def check(pages: Pages, *, is_live: bool) -> None:
    """Refuse options that can't be right.

    Args:
        pages: What was named.
        is_live: Whether pods or workloads were, too.

    Raises:
        BadInputError: one of them.
    """
    if pages.after and not pages.first:
        raise BadInputError("--page-after is given without --page: name the earlier page, too")
    if pages.after and len(pages.after) != len(pages.first):
        raise BadInputError(
            f"--page-after is given {len(pages.after)} times and --page {len(pages.first)}: allowed"
            " is one for each, in the same order, or none"
        )
    if pages.seconds is not None and not 0 < pages.seconds <= LONGEST_S:
        raise BadInputError(f"--seconds is {pages.seconds:g}; allowed: more than 0, up to a day")
    if pages.seconds is not None and not (pages.after or is_live):
        raise BadInputError(
            "--seconds is given without --page-after: one page is one look; name a later one, too"
        )


@dataclass(frozen=True, slots=True)
class Read:
    """What the pages came to.

    Attributes:
        looks: By the name of the first page.
        doubts: By the same: why two pages were not compared.
        failed: Whether a page is missing.
    """

    looks: dict[str, Looks]
    doubts: dict[str, tuple[Finding, ...]]
    failed: bool


def looks_of(pages: Pages) -> Read:
    """Read the pages; the subject of each is its first page's name.

    One that can't be read, or is named twice, gets a line and does not hold back the others. Of a
    pair the other one is judged by itself, and so is the later of two that may be of two engines.
    """
    found: dict[str, Looks] = {}
    doubts: dict[str, tuple[Finding, ...]] = {}
    failed = False
    for place, name in enumerate(pages.first):
        first = attempt(partial(page_of, "--page", name, pages.first[:place]))
        newest, seconds = first, None
        if pages.after:
            later = pages.after[place]
            taken = (*pages.first, *pages.after[:place])
            newest = attempt(partial(page_of, "--page-after", later, taken))
            seconds = pages.seconds
        failed = failed or first is None or newest is None
        if name in pages.first[:place]:
            continue
        if pages.after and first is not None and newest is not None:
            found[name], doubt = compared(first, newest, seconds)
            if doubt is not None:
                told = Finding(doubt.id, Severity(doubt.severity), name, doubt.message, doubt.fix)
                doubts[name] = (told,)
        elif (one := first if newest is None else newest) is not None:
            found[name] = Looks(look(one))
    return Read(found, doubts, failed)


def page_of(option: str, name: str, taken: tuple[str, ...]) -> bytes:
    """One page.

    Args:
        option: Which named it.
        name: File, URL or -.
        taken: What was read before.

    Raises:
        BadInputError: it can't be read, or is named twice.
    """
    if name in taken and (option == "--page" or name == STDIN):
        raise BadInputError(f"{option} {name}: named twice")
    try:
        return read(name, TIMEOUT_S, {})
    except BadInputError as error:
        raise BadInputError(f"{option} {error}") from error


def examined_pages(pages: Pages) -> tuple[list[Examined], bool]:
    """Read the pages and ask all rules; and whether a page is missing."""
    found = looks_of(pages)
    return examined(found.looks, pages, found.doubts), found.failed


def pod_named(text: str) -> str | None:
    """The name of `pod/NAME`; None of another kind.

    Raises:
        BadInputError: no pod has such a name.
    """
    kind, _, name = text.partition("/")
    if kind.lower() not in PODS:
        return None
    if not NAME.fullmatch(name):
        raise BadInputError(f"the pod is {text!r}: allowed is pod/NAME")
    return name


def examined_pod(
    name: str, namespace: str | None, context: str | None, pages: Pages
) -> list[Examined]:
    """A live pod's engine.

    Raises:
        BadInputError: there is no such pod, or the cluster was not reached.
    """
    space = checked_namespace(namespace or namespace_of(context))

    async def pods(kube: "Kube") -> "list[PodRecord]":
        from cacheaware.doctor.pod_pages import read_pod

        found = await read_pod(kube, space, name)
        if found is None:
            raise BadInputError(f"no Pod {name!r} in namespace {space!r}")
        return [found]

    return examined_live(pods, context, pages)


def examined_workload(
    kind: str, name: str, namespace: str | None, context: str | None, pages: Pages
) -> list[Examined]:
    """The engines of a workload's live pods.

    Raises:
        BadInputError: the cluster was not reached.
    """
    space = checked_namespace(namespace or namespace_of(context))

    async def pods(kube: "Kube") -> "list[PodRecord]":
        from cacheaware.doctor.pod_pages import read_pods

        return await read_pods(kube, kind, space, name)

    return examined_live(pods, context, pages)


def examined_live(
    pods: "Callable[[Kube], Awaitable[list[PodRecord]]]", context: str | None, pages: Pages
) -> list[Examined]:
    """Look twice at these pods and ask all rules; one that did not answer is told, too.

    Raises:
        BadInputError: the cluster was not reached.
    """

    async def seen(kube: "Kube") -> "Seen":
        from cacheaware.doctor.pod_pages import look_twice

        return await look_twice(kube, await pods(kube), pages.seconds or LIVE_S)

    found = with_cluster(seen, context)
    silent = [
        Examined(one.subject, None, (one, *found.told.get(one.subject, ()))) for one in found.unread
    ]
    return [*examined(found.looks, pages, found.told), *silent]


def examined(
    looks: Mapping[str, Looks],
    pages: Pages,
    more: Mapping[str, tuple[Finding, ...]] = MappingProxyType({}),
) -> list[Examined]:
    """The findings about each engine, and why its slow requests are slow.

    Args:
        looks: At each engine.
        pages: What was named on the command line.
        more: What is known of some beside their looks.
    """
    findings, attention, rope = health(looks), pages.stored.evidence, pages.stored.shown
    told = []
    for subject, one in looks.items():
        peers = tuple(each for name, each in looks.items() if name != subject)
        alike = one.comparable
        case = Case(alike, peers, attention, rope)
        own = tuple(each for each in findings if each.subject == subject)
        own = (*more.get(subject, ()), *own)
        told.append(Examined(subject, alike, own, tail_of(alike), tuple(judge(case))))
    return told


def number(value: float | None) -> float | None:
    """A number that JSON can hold."""
    return None if value is None or not math.isfinite(value) else round(value, 6)
