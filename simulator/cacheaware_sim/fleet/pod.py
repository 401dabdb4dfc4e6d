"""One pod of a simulated fleet: from ordered to gone, with the engine in it."""

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import StrEnum

from cacheaware_sidecar.engines.sample import EngineSample
from cacheaware_sidecar.phase import Phase
from cacheaware_sim.engine import Engine
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.fleet.scraped import PodSample
from cacheaware_sim.sample import HISTOGRAMS, sample_of
from cacheaware_sim.virtual_time import VirtualTimeEngine

QUIET_S = 5.0
"""So long nothing may run or wait before a sidecar calls its pod empty."""


class Stage(StrEnum):
    """Where a pod stands; each but the last costs GPUs."""

    STARTING = "starting"
    SERVING = "serving"
    CORDONED = "cordoned"
    TERMINATING = "terminating"
    """Deleted, and finishing its requests."""
    GONE = "gone"


PHASES = {
    Stage.STARTING: Phase.LOADING,
    Stage.SERVING: Phase.SERVING,
    Stage.CORDONED: Phase.CORDONED,
    Stage.TERMINATING: Phase.DRAINING,
    Stage.GONE: Phase.DRAINED,
}
"""What the pod's sidecar says."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """What an engine's page would show, whether or not anybody could read it."""

    running: float = 0
    waiting: float = 0
    usage: float = 0.0


@dataclass(slots=True, eq=False)
class SimPod:
    """A pod; times are virtual seconds."""

    name: str
    ordered_at: float
    ready_at: float
    driver: VirtualTimeEngine
    stage: Stage = Stage.STARTING
    since: float = 0.0
    """When the stage began."""
    outstanding: int = 0
    """Requests that it has and that have not ended."""
    woken_at: float | None = None
    """The wake of its engine that is in the events."""
    renewed_at: float = 0.0
    """When its cordon was last asked for."""
    busy_at: float = 0.0
    """When something last ran, waited or came."""
    slowness: list[float] = field(default_factory=list)
    """How many times as long its iterations take, for each slow node it is on."""
    gauges: Gauges = field(default_factory=Gauges)
    sample: EngineSample | None = None
    sampled_at: float | None = None
    watched_from: float | None = None
    """Since when scrapes have been good."""
    prefixes: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Blocks of the prompts that were routed here, the newest last: what a router remembers."""

    @property
    def exists(self) -> bool:
        """Whether its workload counts it: terminating pods it has given up."""
        return self.stage is not Stage.TERMINATING and self.stage is not Stage.GONE

    @property
    def has_engine(self) -> bool:
        """Whether an engine answers in it."""
        return self.stage is not Stage.STARTING and self.stage is not Stage.GONE

    def empty(self, now: float) -> bool:
        """Whether its sidecar calls it empty: nothing is there, on good pages, for five seconds."""
        if self.outstanding or self.watched_from is None:
            return False
        return now - max(self.busy_at, self.watched_from) >= QUIET_S

    def scrape(self, now: float, model: str, *, readable: bool) -> None:
        """Read the engine's page, if that is possible."""
        snapshot = self.driver.snapshot(now, HISTOGRAMS if readable else ())
        self.gauges = Gauges(snapshot.running, snapshot.waiting, snapshot.usage)
        if not readable:
            self.sample = self.watched_from = None
            return
        if self.watched_from is None:
            self.watched_from = now
        self.sample = sample_of(snapshot, self.driver.engine.config, model, self.ordered_at)
        self.sampled_at = now

    def seen(self, now: float) -> PodSample:
        """The pod as a policy sees it."""
        cordoned = self.stage is Stage.CORDONED
        return PodSample(
            name=self.name,
            created_at=self.ordered_at,
            phase=PHASES[self.stage],
            ready=self.stage is Stage.SERVING,
            terminating=not self.exists,
            sample=self.sample,
            sampled_at=self.sampled_at,
            cordoned_s=now - self.since if cordoned else 0.0,
            empty=cordoned and self.empty(now),
        )


def new_pod(number: int, config: EngineConfig, now: float, cold_start_s: float) -> SimPod:
    """A pod that was ordered now and serves after its cold start."""
    ready_at = now + cold_start_s
    engine = VirtualTimeEngine(Engine(config, created_at=ready_at))
    return SimPod(f"pod-{number:04}", ordered_at=now, ready_at=ready_at, driver=engine, since=now)
