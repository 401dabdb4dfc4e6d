"""What a fleet was asked for and did, from the counters of its engines' pages.

Gateways and front ends of some peers count requests and tokens themselves; the simulator shows
policies the engines' pages only, so this is what stands in for them. Requests that never reached an
engine are not seen.
"""

from collections import deque
from dataclasses import dataclass

from cacheaware_sidecar.engines.rates import restarted, without_fallen
from cacheaware_sidecar.engines.sample import EngineSample
from cacheaware_sim.fleet.scraped import Observation, PodSample

UNUSED = EngineSample(
    requests=0,
    running=0,
    waiting=0,
    prompt_tokens=0,
    generation_tokens=0,
    prefix_queries=0,
    prefix_hits=0,
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Counts over some time, summed over pods."""

    arrived: float = 0.0
    """Requests that came: ended + more running + more waiting."""
    began: float = 0.0
    """Requests whose prefill began: ended + more running."""
    ended: float = 0.0
    prompt_tokens: float = 0.0
    generation_tokens: float = 0.0
    prefix_queries: float = 0.0
    prefix_hits: float = 0.0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.arrived + other.arrived,
            self.began + other.began,
            self.ended + other.ended,
            self.prompt_tokens + other.prompt_tokens,
            self.generation_tokens + other.generation_tokens,
            self.prefix_queries + other.prefix_queries,
            self.prefix_hits + other.prefix_hits,
        )

    def prompt_tokens_per_request(self) -> float | None:
        """Mean prompt of the requests whose prefill began; None below one of them."""
        return self.prompt_tokens / self.began if self.began >= 1 else None

    def generation_tokens_per_request(self) -> float | None:
        """Mean answer, those that run counted as half done; None below one request."""
        requests = (self.began + self.ended) / 2
        return self.generation_tokens / requests if requests >= 1 else None

    def prefix_hit_ratio(self) -> float | None:
        """Share of prompt tokens found in the prefix cache; None where none was looked up."""
        return self.prefix_hits / self.prefix_queries if self.prefix_queries > 0 else None


def between(before: EngineSample, after: EngineSample) -> Traffic:
    """Traffic of one engine between two scrapes; none where a page lacks a count.

    >>> before = EngineSample(requests=10, running=2, waiting=0, prompt_tokens=5000,
    ...                       generation_tokens=900)
    >>> after = EngineSample(requests=12, running=3, waiting=4, prompt_tokens=6500,
    ...                      generation_tokens=1150)
    >>> traffic = between(before, after)
    >>> traffic.arrived, traffic.began, traffic.prompt_tokens_per_request()
    (7.0, 3.0, 500.0)
    >>> traffic.generation_tokens_per_request()
    100.0
    """
    before = UNUSED if restarted(before, after) else without_fallen(before, after)
    ended = _grown(before.requests, after.requests)
    running = _grown(before.running, after.running)
    waiting = _grown(before.waiting, after.waiting)
    return Traffic(
        arrived=ended + running + waiting,
        began=ended + running,
        ended=ended,
        prompt_tokens=_grown(before.prompt_tokens, after.prompt_tokens),
        generation_tokens=_grown(before.generation_tokens, after.generation_tokens),
        prefix_queries=_grown(before.prefix_queries, after.prefix_queries),
        prefix_hits=_grown(before.prefix_hits, after.prefix_hits),
    )


def _grown(before: float | None, after: float | None) -> float:
    return 0.0 if before is None or after is None else float(after - before)


def _scrape(pod: PodSample) -> tuple[float, EngineSample] | None:
    """A pod's newest scrape; that of an unused engine while it still starts."""
    if pod.sample is None or pod.sampled_at is None:
        return None if pod.ready else (pod.created_at, UNUSED)
    return pod.sampled_at, pod.sample


@dataclass(frozen=True, slots=True)
class Window:
    """Traffic of some seconds."""

    seconds: float
    traffic: Traffic


class TrafficMeter:
    """Traffic of the fleet over the last `keep_s` seconds, that of pods that are gone included."""

    def __init__(self, keep_s: float) -> None:
        self._keep_s = keep_s
        self._newest: dict[str, tuple[float, EngineSample]] = {}
        self._steps: deque[tuple[float, float, Traffic]] = deque()
        self._seen_at: float | None = None

    def see(self, seen: Observation) -> None:
        """Count what each pod's new scrape adds to its last one."""
        traffic = Traffic()
        newest = {}
        for pod in seen.pods:
            before, after = self._newest.get(pod.name), _scrape(pod)
            if after is None or (before is not None and after[0] <= before[0]):
                after = before
            elif before is not None:
                traffic += between(before[1], after[1])
            if after is not None:
                newest[pod.name] = after
        self._newest = newest
        if self._seen_at is not None:
            self._steps.append((seen.now, seen.now - self._seen_at, traffic))
        self._seen_at = seen.now
        while self._steps and self._steps[0][0] <= seen.now - self._keep_s:
            self._steps.popleft()

    def last(self, seconds: float, now: float) -> Window | None:
        """Traffic after `now - seconds`, and over how long that was; None before there is any."""
        steps = [step for step in self._steps if step[0] > now - seconds]
        if not steps:
            return None
        traffic = Traffic()
        for _, _, each in steps:
            traffic += each
        return Window(sum(step[1] for step in steps), traffic)
