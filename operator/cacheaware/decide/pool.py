"""The warm pool: so many replicas more than the load asks for, whatever the load is.

The load is measured against the fleet without its pool, and the pool is added to what it asks for
before the windows. So a load within tolerance, or an unknown one, leaves the fleet as it is: the
pool is not added to itself round after round. And windows and rates see the sum, as they would see
any other number. To add it after them would let a pool follow each wave of the load at once.
"""

from msgspec.structs import replace

from cacheaware.decide.policy import Policy
from cacheaware.decide.recommend import Recommendation


def without_pool(current: int, policy: Policy) -> int:
    """The replicas that the load is measured against.

    >>> without_pool(5, Policy(warm_pool=2)), without_pool(1, Policy(warm_pool=2))
    (3, 0)
    """
    return max(0, current - policy.warm_pool)


def with_pool(found: Recommendation, current: int, policy: Policy) -> Recommendation:
    """What the load asks for and the pool; a fallback is for all replicas, its pool included."""
    if not policy.warm_pool:
        return found
    more = 0 if found.fallback else policy.warm_pool
    return replace(found, replicas=max(found.replicas + more, current if found.fallback else 0))
