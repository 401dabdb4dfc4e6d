"""When most pods stop answering under load: a saturated engine answers late, or not at all."""

from collections.abc import Iterable

from cacheaware.decide.demand import NANO, nano
from cacheaware.decide.fleet import Unknown
from cacheaware.decide.policy import Policy
from cacheaware.decide.supply import Load, Supply
from cacheaware_sidecar.phase import Phase


def overloaded_and_silent(supply: Supply, policy: Policy) -> bool:
    """Whether most pods time out while their last loads were at target or above."""
    away = (pod for pod in supply.away if pod.view.phase is Phase.SERVING)
    pods = (*supply.serving, *away)
    silent = [pod for pod in pods if pod.view.unknown is Unknown.TIMED_OUT and pod.load is None]
    loads = [pod.stale for pod in silent if pod.stale is not None]
    return 2 * len(silent) > len(pods) and at_target(loads, policy)


def at_target(loads: Iterable[Load], policy: Policy) -> bool:
    """Whether the mean use or the mean queue of these pods is at target or above."""
    loads = tuple(loads)
    usages = [nano(load.usage) for load in loads if load.usage is not None]
    queues = [nano(load.waiting) for load in loads if load.waiting is not None]
    full = sum(usages) * 100 >= policy.kv_utilization_percent * NANO * len(usages)
    queued = sum(queues) >= policy.pending_per_replica * NANO * len(queues)
    return (full and bool(usages)) or (queued and bool(queues))
