"""What a round has seen of the demand: KV in use, prefill that came, requests that wait."""

from collections.abc import Sequence
from math import fsum

from cacheaware.decide.demand import NANO, Signal, expected_of, loaded, nano, per_request, pod_of
from cacheaware.decide.history import History, Moment
from cacheaware.decide.policy import Policy
from cacheaware.decide.supply import Load, Supply

PREFILL_TARGET = 1.0
"""So many requests of a pod may be in their prefill at a time, on the average. Decoding goes on in
the same iterations, so an engine that does nothing else is at three quarters of its limit then.
"""


def moment_of(
    supply: Supply,
    kv: Signal,
    policy: Policy,
    history: History,
    *,
    prefill_tokens_per_s: float | None,
    seconds: float,
) -> Moment:
    """This round's demand.

    A request that waits counts once, in the round in which it came: else a queue that a fleet could
    not work off would look like an ever growing demand, for an hour.

    Args:
        supply: Whose pods carry it.
        kv: The KV signal as measured now.
        policy: Decode pods prefill nothing.
        history: What waited in the round before.
        prefill_tokens_per_s: Of one pod; None where that is not known.
        seconds: Since the round before.
    """
    loads = [load for pod in loaded(supply) if (load := pod.growing_load) is not None]
    waiting = summed([load.waiting for load in loads])
    more = 0.0 if waiting is None or history.waiting is None else waiting - history.waiting
    pod = pod_of(kv, history)
    by_size = kv.name != "kv-usage"
    used = summed([load.used_tokens if by_size else load.usage for load in loads]) or 0.0
    if by_size and more > 0:
        used += more * size_of(supply, loads, pod)
    prompts = prompt_tokens_of(loads, more, seconds) if policy.role != "Decode" else None
    speed = prefill_tokens_per_s
    return Moment(
        kv=kv.pods(nano(used), pod),
        work=None if prompts is None or not speed else prompts / (speed * PREFILL_TARGET),
        waiting=waiting,
        pod=pod if by_size else None,
        coming=supply.coming > 0,
    )


def summed(numbers: Sequence[float | None]) -> float | None:
    """The sum of the known numbers, whatever their order; None of none."""
    known = [number for number in numbers if number is not None]
    return fsum(known) if known else None


def size_of(supply: Supply, loads: Sequence[Load], pod: int) -> float:
    """Tokens that a request that waits will pin: no more than fit into a pod."""
    expected = min(expected_of(supply) or 0.0, pod / NANO)
    return expected * mean([uncached(load) for load in loads])


def prompt_tokens_of(loads: Sequence[Load], more: float, seconds: float) -> float | None:
    """Prompt tokens that came to the fleet, less those that are in the cache; None: none tells.

    Those of the requests that wait are not in the engines' counters: `more` requests wait than in
    the round before.
    """
    came = summed([came_to(load, seconds) for load in loads])
    if came is None:
        return None
    waiting = more * (per_request(loads, prefill_of) or 0.0) if more else 0.0
    return max(0.0, came + waiting)


def prefill_of(load: Load) -> float | None:
    """Prompt tokens of a request that have to be computed."""
    prompt = load.prompt_tokens_per_request
    return None if prompt is None else prompt * uncached(load)


def mean(numbers: Sequence[float]) -> float:
    """The mean; 0 of none."""
    return fsum(numbers) / len(numbers) if numbers else 0.0


def came_to(load: Load, seconds: float) -> float | None:
    """Prompt tokens to compute that came to a pod: by its counter, else by its rate."""
    if load.new_prompt_tokens is not None:
        return load.new_prompt_tokens * uncached(load)
    if load.prompt_tokens_per_s is None:
        return None
    return load.prompt_tokens_per_s * seconds * uncached(load)


def uncached(load: Load) -> float:
    """The share of prompt tokens that is not found in the prefix cache."""
    return 1.0 - (load.prefix_hit_ratio or 0.0)
