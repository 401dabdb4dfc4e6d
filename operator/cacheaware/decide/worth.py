"""What is lost with a pod: the order in which pods are given up, least worth first.

1. A pod that never served: without a node first, as a ReplicaSet does it, then the youngest.
2. A pod that does not serve, not Ready or in another phase: it does no work.
3. The last that serves a LoRA adapter in use is kept while another pod will do.
4. A pod whose engine sleeps and that holds no request: it does no work, and its cache is gone.
5. How long it will take to empty, and so how long a cordon may last. Pods count as alike while one
   needs less than about twice as long as the other, so that a request more or less does not decide
   over a warm cache.
6. Tokens of its requests, which pin its cache.
7. Prefix tokens that its cache has served lately, per second: they would be computed anew.
8. Prefix hit ratio, age, name.

What a pod does not tell ranks between what the others tell; a pod whose requests are not known
ranks as busier than the others, and one of which nothing is known comes last.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from cacheaware.decide.supply import MOST, Load, Pod, within
from cacheaware_sidecar.phase import Phase

Key = tuple[float | str, ...]
UNKNOWN_WORK = float("inf")
NO_WORK = -1.0


def ranked(pods: Iterable[Pod], fleet: Sequence[Pod], serving: Iterable[Pod]) -> list[Pod]:
    """Pods in the order in which they are given up.

    Args:
        pods: Those that may go.
        fleet: All pods, which they are compared with.
        serving: The pods that hold LoRA adapters for requests to come.
    """
    several = list(pods)
    if len(several) < 2:
        return several
    several.sort(key=worth_of(fleet))
    loads = (pod.load for pod in serving)
    holders = Counter(name for load in loads if load is not None for name in set(load.adapters))
    if not holders:
        return several
    going: list[Pod] = []
    kept: list[Pod] = []
    for pod in several:
        used = set(pod.load.adapters) if pod.load is not None else set[str]()
        if any(holders[name] == 1 for name in used):
            kept.append(pod)
            continue
        holders.subtract(used)
        going.append(pod)
    return going + kept


def worth_of(pods: Sequence[Pod]) -> Callable[[Pod], Key]:
    """What is lost with a pod of these, LoRA adapters aside: a key for sorting, least first."""
    loads = [pod.load for pod in pods if pod.load is not None]
    work = work_of(loads)
    tokens = middle(load.used_tokens for load in loads)
    usage = middle(load.usage for load in loads)
    served = middle(map(prefix_tokens_per_s, loads))
    ratio = middle(load.prefix_hit_ratio for load in loads)

    def key(pod: Pod) -> Key:
        view, load = pod.view, pod.load
        age = within(view.age_s, MOST) or 0.0
        if pod.never_served:
            return (0, view.node is not None, age, view.name)
        if load is None:
            return (3, age, view.name)
        return (
            2 if view.ready and view.phase is Phase.SERVING else 1,
            work(load),
            known(load.used_tokens, tokens),
            known(load.usage, usage),
            known(prefix_tokens_per_s(load), served),
            known(load.prefix_hit_ratio, ratio),
            age,
            view.name,
        )

    return key


def work_of(loads: Sequence[Load]) -> Callable[[Load], float]:
    """How much there is to do before a pod is empty: each step is about twice the one before.

    In seconds where every busy pod of these tells them, else in requests.
    """
    busy = [load for load in loads if load.requests]
    timed = all(load.seconds_to_empty is not None for load in busy)

    def work(load: Load) -> float:
        if load.sleeping and not load.busy:
            return NO_WORK
        amount = load.seconds_to_empty if timed and load.requests else load.requests
        if amount is None:
            return UNKNOWN_WORK
        return 1 + int(amount).bit_length() if amount else 0

    return work


def prefix_tokens_per_s(load: Load) -> float | None:
    """Prompt tokens that the cache has spared lately, per second."""
    if load.prompt_tokens_per_s is None or load.prefix_hit_ratio is None:
        return None
    return load.prompt_tokens_per_s * load.prefix_hit_ratio


def known(number: float | None, middle: float) -> float:
    """A number, or what lies between the known ones."""
    return middle if number is None else number


def middle(numbers: Iterable[float | None]) -> float:
    """The number between the lowest and the highest that are known; 0 of none."""
    told = [number for number in numbers if number is not None]
    return (min(told) + max(told)) / 2 if told else 0.0
