"""Scrapes of the last minutes, pod by pod: what a query over a range in Prometheus would see."""

from collections import deque

from cacheaware_sidecar.engines.rates import Rates, rates
from cacheaware_sidecar.engines.sample import EngineSample
from cacheaware_sim.fleet.scraped import Observation, PodSample

Scrape = tuple[float, EngineSample]


class Scrapes:
    """The scrapes of each pod that exists, those of the last `keep_s` seconds."""

    def __init__(self, keep_s: float) -> None:
        self._keep_s = keep_s
        self._by_pod: dict[str, deque[Scrape]] = {}

    def see(self, seen: Observation) -> None:
        """Keep what is new, forget what is too old and pods that are gone."""
        self._by_pod = {pod.name: self._with_newest(pod) for pod in seen.pods}
        for scrapes in self._by_pod.values():
            while scrapes and scrapes[0][0] <= seen.now - self._keep_s:
                scrapes.popleft()

    def _with_newest(self, pod: PodSample) -> deque[Scrape]:
        scrapes = self._by_pod.get(pod.name, deque())
        if pod.sample is None or pod.sampled_at is None:
            return scrapes
        if not scrapes or scrapes[-1][0] < pod.sampled_at:
            scrapes.append((pod.sampled_at, pod.sample))
        return scrapes

    def last(self, pod: str, seconds: float, now: float) -> tuple[EngineSample, ...]:
        """The scrapes of a pod after `now - seconds`, the oldest first."""
        return tuple(sample for at, sample in self._by_pod.get(pod, ()) if at > now - seconds)

    def rates(self, pod: str) -> Rates:
        """What a pod did between its oldest and its newest kept scrape; all None with fewer."""
        scrapes = self._by_pod.get(pod)
        if not scrapes:
            return Rates()
        (start, before), (end, after) = scrapes[0], scrapes[-1]
        return rates(before, after, end - start)
