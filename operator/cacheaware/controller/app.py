"""The operator as a process: kopf's watches, our rounds, the Lease and the server, side by side."""

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import threading
import uuid
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from typing import Any

import kopf

from cacheaware.act.control import Control
from cacheaware.act.cordons import Cordons
from cacheaware.act.events import Events
from cacheaware.act.lease import Lease
from cacheaware.act.owners import Owners
from cacheaware.act.status import StatusWriter
from cacheaware.act.tokens import Account, Tokens
from cacheaware.controller.claims import Claims
from cacheaware.controller.handlers import SCALED_OBJECT, handlers
from cacheaware.controller.registry import Registry
from cacheaware.controller.relist import EVERY_SECONDS, FIRST_SECONDS, Relist
from cacheaware.controller.report import Reporter
from cacheaware.controller.round import Round
from cacheaware.controller.rounds import Rounds
from cacheaware.controller.schema import outdated_fields
from cacheaware.controller.server import Health, Server
from cacheaware.kube import Kube, KubeError, Load, load_credentials
from cacheaware.observe.activation import Activations
from cacheaware.observe.budgets import Budgets
from cacheaware.observe.keyed import KeyedPages
from cacheaware.observe.observer import Observer
from cacheaware.observe.podcache import PodCache
from cacheaware.observe.poll import Poller
from cacheaware.observe.secrets import Secrets
from cacheaware.observe.target import Targets
from cacheaware.settings import Settings
from cacheaware.telemetry import Metrics

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)
OPEN_FILES = 65_536
FIRST_PODS_SECONDS = 5
YOUNG_OBJECTS = 20_000
"""A round makes hundreds of small objects for each pod and drops nearly all of them by itself: a
collection each 700, Python's default, costs a tenth of the operator's time and finds nothing.
"""
ROUND_BUDGET = 0.7
"""Of the interval, for looking at pods; the rest is for the API."""


@dataclass(slots=True, kw_only=True)
class Operator:
    """All parts, wired together."""

    settings: Settings
    kube: Kube
    registry: Registry
    pods: PodCache
    poller: Poller
    control: Control
    lease: Lease
    metrics: Metrics
    round: Round
    rounds: Rounds
    relist: Relist
    health: Health
    server: Server
    stop: asyncio.Event

    def take_signals(self) -> None:
        """SIGTERM and SIGINT end the operator in order."""
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for one in SIGNALS:
                loop.add_signal_handler(one, self.stop.set)


def assemble(settings: Settings, load: Load = load_credentials) -> Operator:
    """Make the parts; nothing runs yet."""
    metrics, registry = Metrics(), Registry()
    kube = Kube(load, on_error=metrics.api_error)
    pods = PodCache(kube)
    poller = Poller(concurrency=settings.scrape_concurrency, deadline_s=settings.scrape_seconds)
    lease = Lease(kube, settings.lease_namespace, f"{settings.pod_name}_{uuid.uuid4().hex[:8]}")
    kube.may_write = lease.held
    tokens = Tokens(kube, account_of(settings))
    control = Control(tokens, may_call=lease.held, count=metrics.control_call)
    seconds, secrets = settings.round_seconds, Secrets(kube)
    round_ = Round(
        kube=kube,
        registry=registry,
        targets=Targets(kube),
        pods=pods,
        observer=Observer(
            poller, secrets, stale_s=settings.stale_seconds, budget_s=ROUND_BUDGET * seconds
        ),
        activations=Activations(KeyedPages(poller, secrets)),
        budgets=Budgets(kube),
        cordons=Cordons(control),
        lease=lease,
        reporter=Reporter(StatusWriter(kube), Events(kube, settings.pod_name), metrics),
        metrics=metrics,
        claims=Claims(kube, Owners(kube), lease, registry, settings.lease_namespace),
        round_seconds=seconds,
        node_seconds=settings.node_seconds,
    )
    rounds = Rounds(round_, registry, seconds)
    relist = Relist(kube, registry, settings.namespaces)
    health = Health(rounds=rounds, relist=relist, pods=pods, seconds=seconds)
    return Operator(
        settings=settings,
        kube=kube,
        registry=registry,
        pods=pods,
        poller=poller,
        control=control,
        lease=lease,
        metrics=metrics,
        round=round_,
        rounds=rounds,
        relist=relist,
        health=health,
        server=Server(health, metrics, settings.port),
        stop=asyncio.Event(),
    )


def account_of(settings: Settings) -> Account | None:
    """The operator's own ServiceAccount; None outside a cluster."""
    if settings.pod_namespace is None or settings.service_account is None:
        return None
    return Account(settings.pod_namespace, settings.service_account)


async def run(operator: Operator) -> int:
    """Run until the stop event is set or a part fails; returns the exit code.

    The order at the end matters: rounds stop first, then the Lease is given up.
    """
    port = await operator.server.start()
    log.info("serving /healthz, /readyz and /metrics on port %d", port)
    stop_kopf = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []
    try:
        tasks = await start(operator, stop_kopf)
        waiting = asyncio.create_task(operator.stop.wait(), name="stop")
        await asyncio.wait([*tasks, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        return 0 if operator.stop.is_set() else failure(tasks)
    except KubeError as error:
        log.error("not started: %s", error)  # noqa: TRY400 - one clear line; the cause is in it
        return 1
    finally:
        await shut_down(operator, tasks, stop_kopf)


async def start(operator: Operator, stop_kopf: asyncio.Event) -> list[asyncio.Task[None]]:
    """Begin all loops; the first lists come first, so that the first round sees everything.

    Raises:
        KubeError: there are no credentials.
    """
    await operator.kube.credentials()
    operator.round.missing_fields = await outdated_fields(operator.kube)
    await operator.relist.once()
    operator.pods.watch_only(operator.registry.namespaces())
    keda = await has_keda(operator.kube)
    await asyncio.gather(operator.lease.try_once(), first_pods(operator.pods))

    def begin(work: Awaitable[None], name: str) -> asyncio.Task[None]:
        return asyncio.ensure_future(named(work, name))

    tasks = [
        begin(operator.lease.run(), "lease"),
        begin(operator.rounds.run(), "rounds"),
        begin(relist_forever(operator.relist), "relist"),
        begin(watch(operator, stop_kopf, keda=keda), "watches"),
    ]
    gc.collect()
    gc.freeze()  # what was loaded stays: a full collection need not walk it each time
    gc.set_threshold(YOUNG_OBJECTS)
    return tasks


async def first_pods(pods: PodCache) -> None:
    """Give the lists of pods a moment: a round without them decides nothing."""
    for _ in range(FIRST_PODS_SECONDS * 10):
        if pods.all_asked():
            return
        await asyncio.sleep(0.1)


async def named(work: Awaitable[None], name: str) -> None:
    """Await something under a task name."""
    if (task := asyncio.current_task()) is not None:
        task.set_name(name)
    await work


class NotOurs:
    """What kopf must leave alone at its end: everything, for the loop is not its own.

    It holds every task that came after it for a leftover of its handlers; ours end at once.
    """

    def __contains__(self, _: object) -> bool:
        return True

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(())

    def __len__(self) -> int:
        return 0


async def watch(operator: Operator, stop_kopf: asyncio.Event, *, keda: bool) -> None:
    """The watches of kopf, until `stop_kopf`."""
    namespaces = operator.settings.namespaces
    found = handlers(operator.registry, operator.kube, keda=keda, dynamic=not namespaces)
    tasks = await kopf.spawn_tasks(
        registry=found,
        clusterwide=not namespaces,
        namespaces=namespaces,
        standalone=True,
        # Else kopf asks for the user's name, and a container's number has none.
        identity=operator.settings.pod_name,  # type: ignore[arg-type]  # kopf's own NewType
        stop_flag=stop_kopf,
    )
    operator.take_signals()  # kopf has just taken them; the order at the end is ours
    await kopf.run_tasks(tasks, ignored=NotOurs())


async def relist_forever(relist: Relist) -> None:
    """List again from time to time."""
    while True:
        await asyncio.sleep(EVERY_SECONDS if relist.listed else FIRST_SECONDS)
        await relist.once()


async def has_keda(kube: Kube) -> bool:
    """Whether the cluster serves ScaledObjects."""
    group, version, plural = SCALED_OBJECT
    try:
        found = await kube.get(f"/apis/{group}/{version}")
    except KubeError:
        return False
    return any(one.get("name") == plural for one in found.get("resources") or ())


def failure(tasks: list[asyncio.Task[None]]) -> int:
    """Say which part ended by itself."""
    for task in tasks:
        if task.done() and not task.cancelled():
            log.error("%s ended: %s", task.get_name(), task.exception() or "without an error")
    return 1


async def shut_down(
    operator: Operator, tasks: list[asyncio.Task[None]], stop_kopf: asyncio.Event
) -> None:
    """Stop writing, give up the Lease, close everything."""
    ours, kopfs = tasks[:-1], tasks[-1:]
    for task in ours:
        task.cancel()
    await asyncio.gather(*ours, return_exceptions=True)
    await operator.rounds.close()
    await operator.lease.release()
    await operator.pods.close()
    stop_kopf.set()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(15):
            await asyncio.gather(*kopfs, return_exceptions=True)
    await operator.poller.close()
    await operator.control.close()
    await operator.server.stop()
    await operator.kube.close()


def raise_open_files() -> None:
    """Thousands of pods are thousands of sockets; the soft limit is ours to raise."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def main(settings: Settings, load: Load = load_credentials) -> int:
    """Run the operator until SIGTERM or SIGINT; returns the exit code."""
    raise_open_files()
    operator = assemble(settings, load)
    operator.take_signals()
    return await run(operator)
