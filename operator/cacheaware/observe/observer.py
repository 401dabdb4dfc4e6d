"""A target and its pods, as one FleetView per round."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from cacheaware import names
from cacheaware.decide.fleet import FleetView, PodView, Unknown
from cacheaware.observe import direct, sidecar
from cacheaware.observe.keyed import KeyedPages
from cacheaware.observe.look import DIRECT, SIDECAR, Look
from cacheaware.observe.memory import PodMemory, measured, pod_view, remember
from cacheaware.observe.poll import PER_TARGET, Poller
from cacheaware.observe.secrets import SecretRef, Secrets
from cacheaware.observe.target import Target
from cacheaware.pods import PodRecord

log = logging.getLogger(__name__)

Memories = Mapping[str, PodMemory]


class Access(Struct, frozen=True, kw_only=True):
    """How a scaler's pods are looked at."""

    observation: str = "Auto"
    """Auto, Sidecar or Direct."""
    ports: tuple[int, ...] = ()
    """One for each engine of a pod; where not given: what the pod says, else 8000 /metrics."""
    path: str | None = None
    scheme: str = "http"
    engine: str = "auto"
    """Whose names to read on a metrics page; auto: by the names on it."""
    secret: SecretRef | None = None
    latency: bool = True
    """Whether there is a target for the time to the first token."""


class Seen(Struct, frozen=True):
    """A round's pods, and what to remember of them."""

    pods: tuple[PodView, ...]
    memories: dict[str, PodMemory]
    observation: str
    problems: tuple[str, ...]
    errors: Counter[str]
    """Looks that gave no load, by reason."""


class Observer:
    """Looks at all pods of a target at once.

    Args:
        poller: fetches from pods.
        secrets: keys of engines that want one.
        stale_s: a sample older than this is unknown.
        budget_s: the time that a target's pods have together, so that the round ends in time.
        clock: monotonic seconds.
        wall: seconds since the epoch.
    """

    def __init__(
        self,
        poller: Poller,
        secrets: Secrets,
        *,
        stale_s: float,
        budget_s: float,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._poller = poller
        self._pages = KeyedPages(poller, secrets, clock=clock)
        self._stale_s = stale_s
        self._budget_s = budget_s
        self._clock = clock
        self._wall = wall

    async def see(self, records: Sequence[PodRecord], access: Access, past: Memories) -> Seen:
        """Ask every pod, in parallel; one that fails spoils only itself."""
        looks = await self._all_looks(records, access, past)
        return seen_of(
            records, looks, past, now=self._clock(), wall=self._wall(), stale_s=self._stale_s
        )

    async def _all_looks(
        self, records: Sequence[PodRecord], access: Access, past: Memories
    ) -> list[Look | None]:
        """A look at each pod; None for one that had no turn or no end within the budget."""
        turns = iter(in_turn(records, past))
        looks: dict[str, Look | None] = {}

        async def ask() -> None:
            for record in turns:
                try:
                    memory = past.get(record.uid) or PodMemory()
                    looks[record.uid] = await self._look(record, access, memory)
                except Exception as error:  # whatever a pod sends spoils only itself
                    log.exception("pod %s/%s: its answer", record.namespace, record.name)
                    looks[record.uid] = broken(way(record, access), self._clock(), error)

        tasks = [asyncio.create_task(ask()) for _ in records[:PER_TARGET]]
        if not tasks:
            return []
        try:
            await asyncio.wait(tasks, timeout=self._budget_s)
        finally:
            for task in tasks:
                task.cancel()
        return [looks.get(one.uid) for one in records]

    async def _look(self, record: PodRecord, access: Access, memory: PodMemory) -> Look | None:
        if record.ip is None:
            return None
        if way(record, access) == SIDECAR:
            port = record.sidecar_port or names.SIDECAR_PORT
            url = f"http://{host(record.ip)}:{port}{sidecar.PATH}"
            answer = await self._poller.fetch(url, sidecar.MAX_BYTES)
            return sidecar.look(answer, latency=access.latency)
        urls = engine_urls(record, access)
        pages = (self._pages.fetch(url, direct.MAX_BYTES, access.secret) for url in urls)
        answers = await asyncio.gather(*pages)
        return direct.look(answers, lambda at: measured(memory, at), access.engine)


def seen_of(
    records: Sequence[PodRecord],
    looks: Sequence[Look | None],
    past: Memories,
    *,
    now: float,
    wall: float,
    stale_s: float,
) -> Seen:
    """What a round saw, from a look at each pod; None for one that could not be asked."""
    memories = {
        record.uid: remember(
            past.get(record.uid) or PodMemory(restarts=record.restarts), record, look
        )
        for record, look in zip(records, looks, strict=True)
    }
    views = tuple(
        pod_view(one, memories[one.uid], now=now, wall=wall, stale_s=stale_s) for one in records
    )
    return Seen(
        views,
        memories,
        observation_of(look for look in looks if look is not None),
        problems(views, memories),
        Counter(view.unknown.value for view in views if view.unknown is not None),
    )


def in_turn(records: Sequence[PodRecord], past: Memories) -> list[PodRecord]:
    """Pods that timed out are asked last, and no pod is always the last of them.

    Else more hung pods than slots would keep the others from ever being asked.
    """
    turns = random.sample(records, len(records))
    return sorted(turns, key=lambda one: late(past.get(one.uid)))


def late(memory: PodMemory | None) -> bool:
    """Whether a pod did not answer in time when it was last asked."""
    return memory is not None and memory.unknown is Unknown.TIMED_OUT


def broken(way: str, at: float, error: Exception) -> Look:
    """A look that our own code could not make of an answer."""
    return Look(at=at, way=way, unknown=Unknown.INVALID, detail=type(error).__name__)


def way(record: PodRecord, access: Access) -> str:
    """Sidecar or Direct, for one pod."""
    if access.observation == "Auto":
        return DIRECT if record.sidecar_port is None else SIDECAR
    return access.observation


def engine_urls(record: PodRecord, access: Access) -> list[str]:
    """The metrics pages of a pod's engines."""
    ports, path = engine_paths(record, access)
    return [f"{access.scheme}://{host(record.ip or '')}:{port}{path}" for port in ports]


def engine_paths(record: PodRecord, access: Access) -> tuple[tuple[int, ...], str]:
    """The ports of a pod's engines, and the path of their pages."""
    path = access.path or record.engine_path or direct.PATH
    path = path if path.startswith("/") else f"/{path}"
    return access.ports or (record.engine_port or direct.PORT,), path


def host(ip: str) -> str:
    """An address as a URL holds it."""
    return f"[{ip}]" if ":" in ip else ip


def observation_of(looks: Iterable[Look]) -> str:
    """How the round's pods were seen: Sidecar, Direct or Mixed."""
    ways = {look.way for look in looks}
    if len(ways) > 1:
        return "Mixed"
    return next(iter(ways), SIDECAR)


def problems(views: Sequence[PodView], memories: Memories) -> tuple[str, ...]:
    """One line for each reason why pods that should be known are not, naming one of them."""
    lines = []
    silent = [view for view in views if view.unknown not in {None, Unknown.NOT_YET_SEEN}]
    for reason in sorted({view.unknown for view in silent if view.unknown}):
        named = [view for view in silent if view.unknown is reason]
        detail = memories[named[0].uid].detail
        more = f" and {len(named) - 1} more" if len(named) > 1 else ""
        lines.append(f"{reason.value}: pod {named[0].name}{more}{': ' + detail if detail else ''}")
    return tuple(lines)


def fleet_view(
    *, namespace: str, name: str, uid: str, target: Target, seen: Seen, conflict: str | None
) -> FleetView:
    """The input of a decision."""
    return FleetView(
        namespace=namespace,
        name=name,
        uid=uid,
        target_kind=target.ref.kind,
        target_name=target.ref.name,
        spec_replicas=target.spec_replicas,
        pods=seen.pods,
        rollout=target.rollout,
        conflict=conflict,
        observation=seen.observation,
        problems=seen.problems + ((target.problem,) if target.problem else ()),
    )
