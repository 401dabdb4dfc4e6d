"""llm-d's workload-variant-autoscaler, percentage analyzer: wva-v1.

Source: llm-d WVA b08b1c7 (v0.5), internal/saturation/analyzer.go and
charts/workload-variant-autoscaler/values.yaml. A pod is saturated at 80 % of its cache or 5 waiting
requests; one pod more when the mean spare of the others is under 10 % or 3 requests, one less when
the load on one pod less would leave that much, none while the fleet is in transition. Every 60 s,
from each pod's peaks of the last minute. The result, wva_desired_replicas, is the External metric
(AverageValue 1) of an HPA: both directions stabilised for 240 s, 10 pods per 150 s.

Kept as it follows from the source: *from 10 pods on the HPA's tolerance of 10 % hides a step of
one, in both directions*; desired then differs from current, which counts as in transition, and
nothing ends that. A scraped page without the gauges counts as 0. Earlier charts had other windows
(0 s, 10 pods per 15 s: `AT_ONCE`, here with no tolerance, KEP-4951), development a loop of 30 s.

What is approximated. Peaks are over scrapes 5 s apart; Prometheus has them every 15 s. One variant,
so cost decides nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cacheaware_sim.fleet.scraped import Observation, PodSample
from cacheaware_sim.policies.hpa_behavior import Behavior, Rate, Rules
from cacheaware_sim.policies.policy import Limits, not_terminating
from cacheaware_sim.policies.wva import PEAK_S, Through, WvaPolicy

_CHART = Rules(240, (Rate("Pods", 10, 150),))
CHART = Through(Behavior(up=_CHART, down=_CHART))


@dataclass(frozen=True, slots=True)
class WvaV1Settings:
    """The saturation ConfigMap."""

    kv_threshold: float = 0.80
    queue_threshold: float = 5.0
    kv_spare_trigger: float = 0.10
    queue_spare_trigger: float = 3.0
    loop_s: float = 60.0
    through: Through = CHART


DEFAULT = WvaV1Settings()


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest of a pod's last minute."""

    usage: float
    waiting: float


def step(peaks: Sequence[Peak], settings: WvaV1Settings) -> int:
    """+1, -1 or 0 pods, for a fleet that is not in transition.

    >>> step((Peak(0.75, 0), Peak(0.75, 0)), WvaV1Settings())
    1
    >>> step((Peak(0.3, 0), Peak(0.3, 0)), WvaV1Settings())
    -1
    >>> step((Peak(0.5, 0), Peak(0.5, 0)), WvaV1Settings())
    0
    """
    if not peaks:
        return 0
    free = [
        peak
        for peak in peaks
        if peak.usage < settings.kv_threshold and peak.waiting < settings.queue_threshold
    ]
    pods = len(free)
    usage = sum(peak.usage for peak in free) / pods if pods else settings.kv_threshold
    waiting = sum(peak.waiting for peak in free) / pods if pods else settings.queue_threshold
    if not _has_spare(usage, waiting, settings):
        return 1
    share = pods / (pods - 1) if pods >= 2 else 0
    return -1 if share and _has_spare(usage * share, waiting * share, settings) else 0


def _has_spare(usage: float, waiting: float, settings: WvaV1Settings) -> bool:
    return (
        settings.kv_threshold - usage >= settings.kv_spare_trigger
        and settings.queue_threshold - waiting >= settings.queue_spare_trigger
    )


def in_transition(desired: int | None, current: int, reporting: int) -> bool:
    """Whether the last decision is not carried out yet, or pods do not report yet."""
    return desired not in {None, current} or reporting != current


class WvaV1Policy(WvaPolicy):
    """The saturation loop and its HPA."""

    name = "wva-v1"

    def __init__(self, settings: WvaV1Settings, limits: Limits) -> None:
        super().__init__(settings.loop_s, settings.through, PEAK_S, limits)
        self._settings = settings

    def _analyze(self, seen: Observation) -> int:
        pods = not_terminating(seen.pods)
        peaks = [peak for pod in pods if (peak := self._peak(pod, seen.now)) is not None]
        if not peaks:
            return seen.replicas
        if in_transition(self._desired, seen.replicas, len(peaks)):
            return seen.replicas if self._desired is None else self._desired
        return self._limits.clamp(len(peaks) + step(peaks, self._settings))

    def _peak(self, pod: PodSample, now: float) -> Peak | None:
        scrapes = self._scrapes.last(pod.name, PEAK_S, now)
        if not scrapes:
            return None
        return Peak(
            usage=max(sample.usage or 0.0 for sample in scrapes),
            waiting=max(sample.waiting or 0.0 for sample in scrapes),
        )
