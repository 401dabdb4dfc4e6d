"""Pods whose engine sleeps (vLLM's sleep mode): they hold a GPU and serve nothing.

Somebody else puts an engine to sleep and wakes it, and asks nobody. Until then its pod is no supply
when growing, whatever its gauge says, and a replica like any other when shrinking: one that the
load does not ask for goes, and goes first, for nothing is lost with it. By itself it is no reason
to shrink below what the load, the bounds and the warm pool ask for.
"""

from msgspec.structs import replace

from cacheaware.decide.recommend import Recommendation
from cacheaware.decide.supply import Supply


def awake(current: int, supply: Supply) -> int:
    """The replicas that the load is measured against: those whose engines don't sleep."""
    return max(0, current - len(supply.sleeping))


def with_sleeping(found: Recommendation, current: int, supply: Supply) -> Recommendation:
    """What is asked of the whole fleet, its sleeping pods included.

    Where more pods are to serve, or may have to by what is not known, those that sleep stay and
    come on top. Where the pods that are awake will do, the others are not needed.

    >>> from cacheaware.decide.fleet import PodView
    >>> from cacheaware.decide.supply import Pod
    >>> one = Supply(sleeping=(Pod(PodView(name="a"), None, None),))
    >>> with_sleeping(Recommendation(replicas=3, raw=3), 3, one).replicas  # 2 are awake
    4
    >>> with_sleeping(Recommendation(replicas=2, raw=2), 3, one).replicas
    2
    """
    grows = found.replicas > awake(current, supply)
    unsure = found.raw is None or found.doubted
    if grows or unsure or found.silent or found.fallback:
        return replace(found, replicas=found.replicas + len(supply.sleeping))
    return found
