"""How requests find a pod: the ways of Services, load balancers and cache-aware routers."""

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter

from cacheaware_sim.fleet.pod import SimPod
from cacheaware_sim.request import Request
from cacheaware_sim.traces.randomness import stream

Router = Callable[[Sequence[SimPod], Request], SimPod]
"""Chooses one of the pods in the endpoints; there is at least one."""

_outstanding = attrgetter("outstanding")
TOLERATED = 4
"""So many more requests than the least loaded pod has, a pod with the prefix may have."""
WORTH_IT = 0.5
"""The least known share of the blocks looked at that counts: all prompts may begin alike."""
MATCHED = 256
"""Leading blocks of a prompt that are looked at (the plugin's maxPrefixBlocksToMatch)."""
REMEMBERED = 31_250
"""Blocks that are remembered of each pod (its lruCapacityPerServer)."""


def least_queue(pods: Sequence[SimPod], _request: Request) -> SimPod:
    """The pod with the fewest requests; the first of several."""
    return min(pods, key=_outstanding)


class Random:
    """Any pod, as a Service by iptables does it."""

    def __init__(self, seed: int) -> None:
        self._random = stream(seed, "routing")

    def __call__(self, pods: Sequence[SimPod], _request: Request) -> SimPod:
        """The next draw."""
        return pods[int(self._random.random() * len(pods))]


class RoundRobin:
    """One after the other."""

    def __init__(self) -> None:
        self._turn = -1

    def __call__(self, pods: Sequence[SimPod], _request: Request) -> SimPod:
        """The next one."""
        self._turn += 1
        return pods[self._turn % len(pods)]


class PrefixAware:
    """The pod that was sent most of the prompt before, unless it is much busier than others.

    Where less than half of the prompt is known, the pod with the fewest requests (SGLang's router
    does so: cache_threshold). A router does not see the caches: it remembers what it sent where, as
    the approximate prefix plugin of the Gateway API's inference extension does. The work of a
    request is bounded by `MATCHED` blocks, whatever is remembered.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered

    def __call__(self, pods: Sequence[SimPod], request: Request) -> SimPod:
        """The choice, which is remembered."""
        least = min(pods, key=_outstanding)
        if not request.block_names:
            return least
        names = request.block_names[:MATCHED]
        most = least.outstanding + TOLERATED
        able = (pod for pod in pods if pod.outstanding <= most)
        known, _, chosen = max(
            ((_known(pod, names), -pod.outstanding, pod) for pod in able), key=itemgetter(0, 1)
        )
        if known < WORTH_IT * len(names):
            chosen = least
        self._remember(chosen, names)
        return chosen

    def _remember(self, pod: SimPod, names: Sequence[int]) -> None:
        """The end of a prompt is forgotten before its beginning, without which it is useless."""
        known = pod.prefixes
        for name in reversed(names):
            known[name] = None
            known.move_to_end(name)
        while len(known) > self._remembered:
            known.popitem(last=False)


def _known(pod: SimPod, names: Sequence[int]) -> int:
    """Leading blocks that a pod has had."""
    known = pod.prefixes
    return next((count for count, name in enumerate(names) if name not in known), len(names))


ROUTERS: dict[str, Callable[[int], Router]] = {
    "least-queue": lambda _seed: least_queue,
    "random": Random,
    "round-robin": lambda _seed: RoundRobin(),
    "prefix-aware": lambda _seed: PrefixAware(),
}
