"""Gauges that show caches which are kept, and not what requests hold.

A cache that is full for five minutes while nothing waits for long, nothing is preempted and each
request gets its tokens as fast as before is full of what nobody needs. It is no reason to grow: a
new pod's would fill as well, and the fleet would grow for ever. What such a pod's requests hold is
reckoned from their number and size; where that is not known, its use is unknown: idle for growing,
full for shrinking. A queue that lasts, or a preemption, and the gauge counts again at once.
"""

from msgspec.structs import replace

from cacheaware.decide.policy import Policy
from cacheaware.decide.supply import Load, Pod, Supply

RETAINED_SECONDS = 300.0
DOUBT = 2.0
"""A request counts as so many average ones: those that still run may be the long ones."""


def is_retained(pod: Pod) -> bool:
    """Whether a pod's gauge has shown for long what its requests can't explain."""
    return pod.view.retained_s >= RETAINED_SECONDS and pod.load is not None


def without_retained(supply: Supply, policy: Policy) -> Supply:
    """The supply with such pods' use reckoned from their requests.

    Pods that hand KV over hold it for others: none of theirs is explained by their own requests.
    """
    if not any(map(is_retained, supply.serving)):
        return supply
    sizes = policy.role == "Both"
    return replace(supply, serving=tuple(pinned(pod, sizes=sizes) for pod in supply.serving))


def pinned(pod: Pod, *, sizes: bool) -> Pod:
    """A pod with the use that its requests can explain; with `sizes` they tell it."""
    load = pod.load
    if load is None or load.usage is None or not is_retained(pod):
        return pod
    share = requested(load) if sizes else None
    held = None if share is None else min(share, load.usage)
    size = load.capacity_tokens
    tokens = None if held is None or size is None else held * size
    return replace(pod, load=replace(load, usage=held, used_tokens=tokens))


def requested(load: Load) -> float | None:
    """The share of the cache that a pod's requests may hold; None where that can't be told.

    10 requests of 1,000 tokens in a cache of 100,000: 10 x 1,000 x 2 / 100,000 = 0.2.
    """
    if load.requests == 0:
        return 0.0
    if load.requests is None or not load.tokens_per_request or not load.capacity_tokens:
        return None
    return DOUBT * load.requests * load.tokens_per_request / load.capacity_tokens


def retained_words(supply: Supply) -> str:
    """How many pods' gauges don't count, and why; empty where all do."""
    count = sum(map(is_retained, supply.serving))
    if not count:
        return ""
    whose = "1 pod keeps a cache" if count == 1 else f"{count:,} pods keep caches"
    return (
        f"{whose} that no request needs (for {RETAINED_SECONDS / 60:.0f} min nothing waited for"
        " long, was preempted or got slower): no reason to grow"
    )
