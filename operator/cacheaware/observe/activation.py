"""The activation signal: one series of a metrics page outside of the target's pods.

Of a gateway, a router or a queue that holds or counts what waits for a target without replicas.
"""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from cacheaware.decide.circumstances import Reading
from cacheaware.observe.keyed import KeyedPages
from cacheaware.observe.poll import Answer
from cacheaware.observe.secrets import SecretRef

MAX_BYTES = 8 * 1024 * 1024
SHARED_SECONDS = 1.0
"""Many targets behind one gateway share a page that is no older than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """`spec.activation`, as far as it says where to look."""

    url: str
    metric: str
    labels: tuple[tuple[str, str], ...] = ()
    """Labels that a series must have, by name and value."""
    secret: SecretRef | None = None

    @property
    def series(self) -> str:
        """The series as Prometheus writes it."""
        pairs = ",".join(f'{name}="{value}"' for name, value in self.labels)
        return f"{self.metric}{{{pairs}}}" if pairs else self.metric


class Activations:
    """Reads activation signals."""

    def __init__(self, pages: KeyedPages, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pages = pages
        self._clock = clock
        self._shared: dict[tuple[str, SecretRef | None], tuple[float, asyncio.Task[Answer]]] = {}

    async def read(self, source: Source) -> Reading:
        """The signal, or why it can't be read; never raises."""
        answer = await self._page(source)
        if answer.content is None:
            return Reading(detail=f"{source.series}: {answer.detail}")
        return reading_of(answer.content, source)

    async def _page(self, source: Source) -> Answer:
        key, now = (source.url, source.secret), self._clock()
        fresh = {
            one: known for one, known in self._shared.items() if now - known[0] < SHARED_SECONDS
        }
        if key not in fresh:
            fetch = self._pages.fetch(source.url, MAX_BYTES, source.secret)
            fresh[key] = (now, asyncio.ensure_future(fetch))
        self._shared = fresh
        return await asyncio.shield(fresh[key][1])


def reading_of(page: bytes, source: Source) -> Reading:
    r"""The sum of a page's matching series.

    A series that is not there is unknown, as is a counter: it only ever rises, so it is above any
    threshold for ever.

    >>> reading_of(b"queue 3\n", Source(url="http://gateway/metrics", metric="queue"))
    Reading(value=3.0, detail='')
    """
    lines = wanted(page.decode("utf-8", "replace"), source.metric)
    try:
        families = list(text_string_to_metric_families("\n".join(lines) + "\n"))
    except ValueError:
        return Reading(detail=f"{source.series}: the page can't be read")
    if any(family.type == "counter" for family in families):
        return Reading(
            detail=f"{source.series} is a counter, which never falls; a gauge is asked for"
        )
    found = [one for family in families for one in family.samples if matches(one, source)]
    if not found:
        return Reading(detail=f"{source.series} is not on the page")
    if any(not math.isfinite(one.value) or one.value < 0 for one in found):
        return Reading(detail=f"{source.series} is not a number of requests")
    return Reading(math.fsum(one.value for one in found))


def wanted(page: str, metric: str) -> list[str]:
    """The lines about a metric: the rest of a large page need not be parsed."""
    starts = tuple(f"{head}{metric}{end}" for head in ("", "# TYPE ") for end in ("{", " ", "\t"))
    return [line for line in page.splitlines() if line.startswith(starts)]


def matches(sample: Sample, source: Source) -> bool:
    """Whether a sample is of the series that is asked for."""
    has = sample.labels
    return sample.name == source.metric and all(
        has.get(name) == value for name, value in source.labels
    )
