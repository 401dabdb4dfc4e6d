"""Knative's autoscaler on concurrency: knative-kpa.

Source: knative/serving 98e5ef9, pkg/autoscaler/scaling/autoscaler.go and config-autoscaler; the
step below was compared with that file. Defaults: tick 2 s, stable window 60 s, panic window 6 s
(10 %) at 200 %, target 100 concurrent requests x 70 %, up at most x1000, down at most /2, no
scale-down delay.

What is approximated. The queue-proxy measures concurrency each second; here it is running + waiting
of the engine's page, as old as the scrape, so the panic window holds about one scrape. Knative's
activator counts requests that come while no pod serves; here they wait at the router, unseen. Which
share of the pods has to answer depends on the fleet's size in Knative; here it is half.
"""

import math
from dataclasses import dataclass

from cacheaware_sim.fleet.scraped import Observation, PodSample
from cacheaware_sim.policies.policy import Limits, Orders, hold, ready
from cacheaware_sim.policies.window import TimeWindow


@dataclass(frozen=True, slots=True)
class KpaSettings:
    """config-autoscaler."""

    target: float = 100 * 0.7
    """Concurrent requests per pod: container-concurrency-target-default x target percentage."""
    tick_s: float = 2.0
    stable_window_s: float = 60.0
    panic_window_s: float = 6.0
    panic_threshold: float = 2.0
    max_scale_up_rate: float = 1000.0
    max_scale_down_rate: float = 2.0
    scale_down_delay_s: float = 0.0


DEFAULT = KpaSettings()


@dataclass(frozen=True, slots=True)
class Panic:
    """Panic mode: since when the last excess was, and the most pods since it began."""

    last_over: float | None = None
    max_pods: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """Mean total concurrency of the two windows."""

    stable: float
    panic: float


def total_concurrency(pods: tuple[PodSample, ...]) -> float | None:
    """Concurrency of all ready pods, from the mean of those that answer; None below half of them.

    A pod that answers without its counts does not answer.
    """
    known = [value for pod in pods if (value := concurrency(pod)) is not None]
    if not known or 2 * len(known) < len(pods):
        return None
    return sum(known) / len(known) * len(pods)


def concurrency(pod: PodSample) -> float | None:
    """Requests in the pod."""
    if pod.sample is None or pod.sample.running is None or pod.sample.waiting is None:
        return None
    return pod.sample.running + pod.sample.waiting


def step(
    load: Load, ready_pods: int, panic: Panic, settings: KpaSettings, now: float
) -> tuple[int, Panic]:
    """Desired pods, and panic mode afterwards.

    >>> step(Load(stable=70, panic=280), 1, Panic(), KpaSettings(), now=0)
    (4, Panic(last_over=0, max_pods=4))
    >>> step(Load(stable=70, panic=70), 4, Panic(0, 4), KpaSettings(), now=30)
    (4, Panic(last_over=0, max_pods=4))
    >>> step(Load(stable=70, panic=70), 4, Panic(0, 4), KpaSettings(), now=61)
    (2, Panic(last_over=None, max_pods=0))
    """
    pods = max(1, ready_pods)
    highest = math.ceil(settings.max_scale_up_rate * pods)
    lowest = math.floor(pods / settings.max_scale_down_rate)
    wanted_stable = math.ceil(load.stable / settings.target)
    wanted_panic = math.ceil(load.panic / settings.target)
    desired_stable = min(max(wanted_stable, lowest), highest)
    desired_panic = min(max(wanted_panic, lowest), highest)
    panic = _panic_after(panic, wanted_panic / pods, settings, now)
    if panic.last_over is None:
        return desired_stable, panic
    most = max(panic.max_pods, desired_stable, desired_panic)
    return most, Panic(panic.last_over, most)


def _panic_after(panic: Panic, excess: float, settings: KpaSettings, now: float) -> Panic:
    if excess >= settings.panic_threshold:
        return Panic(now, panic.max_pods)
    if panic.last_over is not None and now > panic.last_over + settings.stable_window_s:
        return Panic()
    return panic


class KpaPolicy:
    """The loop around `step`."""

    name = "knative-kpa"

    def __init__(self, settings: KpaSettings, limits: Limits) -> None:
        self.interval_s = settings.tick_s
        self._settings = settings
        self._limits = limits
        self._concurrency = TimeWindow(settings.stable_window_s)
        self._desired = TimeWindow(max(settings.scale_down_delay_s, settings.tick_s))
        self._panic: Panic | None = None

    def decide(self, seen: Observation) -> Orders:
        """What the KPA wants now."""
        pods = ready(seen.pods)
        if self._panic is None:
            self._panic = Panic(seen.now, len(pods)) if len(pods) > 1 else Panic()
        total = total_concurrency(pods)
        if total is not None:
            self._concurrency.add(seen.now, total)
        load = self._load(seen.now)
        if load is None:
            return hold(seen, "no data")
        desired, self._panic = step(load, len(pods), self._panic, self._settings, seen.now)
        self._desired.add(seen.now, desired)
        delayed = max([desired, *self._delayed(seen.now)])
        mode = "stable" if self._panic.last_over is None else "panic"
        return Orders(self._limits.clamp(int(delayed)), reason=f"{mode}: {load}")

    def wrote(self, before: int, after: int, now: float) -> None:
        """Nothing to remember."""

    def _load(self, now: float) -> Load | None:
        stable = self._concurrency.mean(self._settings.stable_window_s, now)
        panic = self._concurrency.mean(self._settings.panic_window_s, now)
        return None if stable is None else Load(stable, 0.0 if panic is None else panic)

    def _delayed(self, now: float) -> tuple[float, ...]:
        return self._desired.last(self._settings.scale_down_delay_s, now)
