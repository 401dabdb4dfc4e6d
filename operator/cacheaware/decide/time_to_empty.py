"""How long pods take to empty, where they don't tell it themselves: as the workload has taught."""

from msgspec.structs import replace

from cacheaware.decide.learned_work import Work, decode_speed
from cacheaware.decide.supply import MOST, Pod, Supply, within


def with_time_to_empty(supply: Supply, work: Work) -> Supply:
    """The supply with the time to empty of each pod that holds requests, as far as it is known."""
    if work.sizes is None:
        return supply
    return replace(
        supply,
        serving=tuple(timed(pod, work) for pod in supply.serving),
        cordoned=tuple(timed(pod, work) for pod in supply.cordoned),
        away=tuple(timed(pod, work) for pod in supply.away),
        sleeping=tuple(timed(pod, work) for pod in supply.sleeping),
    )


def timed(pod: Pod, work: Work) -> Pod:
    """A pod with the seconds that its requests take, if each were at its beginning.

    8 requests of 100 tokens at the 200 tokens/s that were learned for 8: 4 s.
    """
    load = pod.load
    if load is None or not load.requests or load.seconds_to_empty is not None:
        return pod
    told = pod.view.load
    answer = told.generation_tokens_per_request if told else None
    tokens = (work.sizes.answer if work.sizes else None) if answer is None else answer
    speed = decode_speed(work, load.running or 1.0)
    if tokens is None or not speed:
        return pod
    seconds = within(load.requests * tokens / speed, MOST)
    return replace(pod, load=replace(load, seconds_to_empty=seconds))
