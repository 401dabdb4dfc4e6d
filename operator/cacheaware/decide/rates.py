"""How fast replicas may change: the HPA's rate policies.

Each policy counts from the replicas at the beginning of its period: the current ones, less what we
added and plus what we took since. Source: Kubernetes, horizontal.go, calculateScaleUpLimit.

Shrinking counts the pods that are not cordoned, so it takes its share when it cordons. Growing
counts what is ordered: pods that only come back are there already and know no rate.
"""

from cacheaware.decide.memory import Change, Memory
from cacheaware.decide.policy import Policy, RatePolicy, Rules


def paced(current: int, wanted: int, policy: Policy, memory: Memory, now: float) -> int:
    """The wanted replicas, as far as the rates allow.

    Args:
        current: Replicas that are not given up.
        wanted: Replicas after the windows.
        policy: Holds the rules of both directions.
        memory: Knows the replicas that are ordered, and the changes before.
        now: This round's time.
    """
    if wanted > current:
        return min(wanted, highest(memory.replicas, policy.scale_up, memory.orders, now))
    if wanted < current:
        return max(wanted, lowest(current, policy.scale_down, memory.changes, now))
    return wanted


def highest(current: int, rules: Rules, changes: tuple[Change, ...], now: float) -> int:
    """The most replicas that growing may reach now; never fewer than are ordered."""
    if rules.select == "Disabled":
        return current
    limits = [grown(began(current, changes, now, policy), policy) for policy in rules.policies]
    return max(current, min(limits) if rules.select == "Min" else max(limits))


def lowest(current: int, rules: Rules, changes: tuple[Change, ...], now: float) -> int:
    """The fewest replicas that shrinking may reach now; never more than the current ones."""
    if rules.select == "Disabled":
        return current
    limits = [shrunk(began(current, changes, now, policy), policy) for policy in rules.policies]
    return min(current, max(limits) if rules.select == "Min" else min(limits))


def began(current: int, changes: tuple[Change, ...], now: float, policy: RatePolicy) -> int:
    """Replicas at the beginning of a policy's period."""
    since = now - policy.period_seconds
    return max(0, current - sum(one.after - one.before for one in changes if one.at > since))


def grown(start: int, policy: RatePolicy) -> int:
    """As far as a policy lets `start` replicas grow; percents are rounded up."""
    if policy.type == "Pods":
        return start + policy.value
    return -(-start * (100 + policy.value) // 100)


def shrunk(start: int, policy: RatePolicy) -> int:
    """As far as a policy lets `start` replicas shrink; the rest is rounded down.

    >>> shrunk(5, RatePolicy("Percent", 10, 60))
    4
    """
    if policy.type == "Pods":
        return max(0, start - policy.value)
    return max(0, start * (100 - policy.value) // 100)
