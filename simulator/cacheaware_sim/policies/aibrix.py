"""AIBrix' pod autoscaler on cache use: aibrix-kpa, aibrix-apa.

Source: vllm-project/aibrix e3e10f9, pkg/controller/podautoscaler (algorithm/kpa.go, apa.go,
metrics/fetcher.go, podautoscaler_controller.go), read beside earlier and later states of the same
files. Defaults: loop 10 s, stable window 180 s, panic window 60 s at 2.0, up at most x2, down at
most /2, tolerances 0.1. Four things are kept as shipped because they decide: the windows hold the
*mean over pods*, so with a gauge from 0 to 1 and a target of 0.5 the KPA never asks for more than 2
pods; a pod that does not answer counts as *0*, starting and terminating ones too; panic is judged
anew in each loop; and the shrink window takes the *minimum* of its recommendations, the reverse of
the HPA's. Each can be switched by a setting.

What is chosen. The signal is vllm:gpu_cache_usage_perc at 0.5, as in AIBrix' white paper. APA reads
the mean of 30 s there. That a scrape of an unreachable pod holds the loop up for 40 s is left out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cacheaware_sim.fleet.scraped import Observation, PodSample
from cacheaware_sim.policies.hpa_behavior import Recommended
from cacheaware_sim.policies.policy import Limits, Orders, hold
from cacheaware_sim.policies.window import TimeWindow


@dataclass(frozen=True, slots=True)
class AibrixSettings:
    """One PodAutoscaler with one metric source of type pod."""

    target: float = 0.5
    loop_s: float = 10.0
    stable_window_s: float = 180.0
    panic_window_s: float = 60.0
    apa_window_s: float = 30.0
    panic_threshold: float = 2.0
    up_rate: float = 2.0
    down_rate: float = 2.0
    up_tolerance: float = 0.1
    down_tolerance: float = 0.1
    up_cooldown_s: float = 0.0
    down_cooldown_s: float = 300.0
    fleet_sum: bool = False
    """The KPA's windows hold the sum over pods, which is what its arithmetic needs."""
    unknown_is_zero: bool = True
    shrink_to_highest: bool = False
    """The shrink window takes its maximum, as the HPA's does."""


DEFAULT = AibrixSettings()


def measured(pods: Sequence[PodSample], settings: AibrixSettings) -> float | None:
    """Mean (or sum) of cache use over the pods; None where nothing is known."""
    values = [None if pod.sample is None else pod.sample.usage for pod in pods]
    if settings.unknown_is_zero:
        values = [0.0 if value is None else value for value in values]
    known = [value for value in values if value is not None]
    if not known:
        return None
    return sum(known) if settings.fleet_sum else sum(known) / len(known)


def kpa_replicas(current: int, stable: float, panic: float, settings: AibrixSettings) -> int:
    """What AIBrix' KPA recommends, from the values of its two windows.

    >>> kpa_replicas(4, 0.9, 0.9, AibrixSettings())
    2
    >>> kpa_replicas(4, 3.1, 3.1, AibrixSettings(fleet_sum=True))
    7
    """
    desired = _by_window(current, stable, settings)
    if stable > 0 and panic / stable <= settings.panic_threshold:
        return desired
    return max(desired, _by_window(current, panic, settings))


def _by_window(current: int, value: float, settings: AibrixSettings) -> int:
    ratio = value / settings.target
    inside = 1 - settings.down_tolerance <= ratio <= 1 + settings.up_tolerance
    wanted = current if inside else math.ceil(ratio)
    highest = max(1, math.ceil(settings.up_rate * current))
    return min(max(wanted, math.floor(current / settings.down_rate)), highest)


def apa_replicas(current: int, value: float, settings: AibrixSettings) -> int:
    """What APA recommends, from the mean over pods.

    >>> [apa_replicas(4, value, AibrixSettings()) for value in (0.1, 0.3, 0.5, 0.6, 1.0)]
    [2, 3, 4, 5, 8]
    """
    ratio = value / settings.target
    if ratio > 1 + settings.up_tolerance:
        return min(math.ceil(settings.up_rate * current), math.ceil(current * ratio))
    if ratio < 1 - settings.down_tolerance:
        return max(math.floor(current / settings.down_rate), math.ceil(current * ratio))
    return current


def cooled_down(
    current: int, new: Recommended, past: Sequence[Recommended], settings: AibrixSettings
) -> int:
    """The recommendation after the windows.

    >>> past = (Recommended(0, 5), Recommended(10, 2))
    >>> cooled_down(6, Recommended(20, 4), past, AibrixSettings())
    2
    >>> cooled_down(6, Recommended(20, 4), past, AibrixSettings(shrink_to_highest=True))
    5
    """
    if new.replicas == current:
        return current
    growing = new.replicas > current
    window_s = settings.up_cooldown_s if growing else settings.down_cooldown_s
    recent = [new.replicas, *(each.replicas for each in past if each.at > new.at - window_s)]
    if growing:
        return max(recent)
    return min(current, max(recent)) if settings.shrink_to_highest else min(recent)


class AibrixPolicy:
    """The loop of both: `aibrix-kpa` and `aibrix-apa`."""

    def __init__(self, name: str, settings: AibrixSettings, limits: Limits) -> None:
        self.name = name
        self.interval_s = settings.loop_s
        self._settings = settings
        self._limits = limits
        self._values = TimeWindow(max(settings.stable_window_s, settings.apa_window_s))
        self._past: tuple[Recommended, ...] = ()

    def decide(self, seen: Observation) -> Orders:
        """What AIBrix wants now."""
        value = measured(seen.pods, self._settings)
        if value is None:
            return hold(seen, "no metrics from any pod")
        self._values.add(seen.now, value)
        new = Recommended(seen.now, self._limits.clamp(self._recommend(seen)))
        self._past = (*(p for p in self._past if p.at > seen.now - self._longest_s()),)
        replicas = cooled_down(seen.replicas, new, self._past, self._settings)
        self._past = (*self._past, new)
        return Orders(self._limits.clamp(replicas), reason=f"{new.replicas} recommended")

    def wrote(self, before: int, after: int, now: float) -> None:
        """Nothing to remember."""

    def _recommend(self, seen: Observation) -> int:
        settings = self._settings
        if self.name == "aibrix-apa":
            value = self._values.mean(settings.apa_window_s, seen.now) or 0.0
            return apa_replicas(seen.replicas, value, settings)
        stable = self._values.mean(settings.stable_window_s, seen.now) or 0.0
        panic = self._values.mean(settings.panic_window_s, seen.now) or 0.0
        return kpa_replicas(seen.replicas, stable, panic, settings)

    def _longest_s(self) -> float:
        return max(self._settings.up_cooldown_s, self._settings.down_cooldown_s)
