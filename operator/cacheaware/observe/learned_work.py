"""What looks at pods that serve teach about their requests, once a minute."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from cacheaware.decide.fleet import PodLoad
from cacheaware.decide.learned import Learned
from cacheaware.decide.learned_work import with_sizes, with_speeds
from cacheaware.decide.supply import MOST, within
from cacheaware.observe.memory import PodMemory
from cacheaware.pods import PodRecord

MINUTE_S = 60.0
"""Rates are of the last minute: looks that are closer tell the same again."""
STEADY = 2.0
"""What runs now is at most so many times what ran on the average, and the other way round: else the
rates are of another load.
"""


def with_work(
    learned: Learned, records: Iterable[PodRecord], memories: Mapping[str, PodMemory], now: float
) -> Learned:
    """What is known of the workload's requests with this round's looks.

    Args:
        learned: up to now.
        records: the target's pods.
        memories: their pasts, this round's looks included.
        now: the operator's monotonic clock.
    """
    if learned.taught_at is not None and now - learned.taught_at < MINUTE_S:
        return learned
    ready = [memories[one.uid] for one in records if one.ready and one.uid in memories]
    fresh = [one for one in ready if one.load is not None and one.unknown is None]
    sizes = [pair for one in fresh if (pair := sizes_of(one.load)) is not None]
    speeds = [speed for one in fresh if (speed := speed_of(one)) is not None]
    if not sizes and not speeds:
        return learned
    work = with_speeds(with_sizes(learned.work, sizes), speeds)
    return replace(learned, work=work, taught_at=now)


def sizes_of(load: PodLoad | None) -> tuple[float, float, float] | None:
    """Tokens of a request's prompt and answer, and requests per second; None unless all are told.

    A pod counts as often as requests began on it: pods that begin one long prompt would count as
    much as those that begin ten short ones. Impossible numbers are unknown: what was learned from
    one would be kept for ever.
    """
    if load is None:
        return None
    prompt = within(load.prompt_tokens_per_request, MOST)
    answer = within(load.generation_tokens_per_request, MOST)
    speed = within(load.prompt_tokens_per_s, MOST)
    if prompt is None or prompt < 1 or answer is None or not speed:
        return None
    return prompt, answer, speed / prompt


def speed_of(memory: PodMemory) -> tuple[float, float] | None:
    """The requests that ran and the tokens per second that they made; None of an unsteady load."""
    load, mean = memory.load, memory.mean_running
    if load is None or mean is None:
        return None
    running, speed = within(load.running, MOST), within(load.generation_tokens_per_s, MOST)
    if not running or not speed:
        return None
    steady = running <= STEADY * mean and mean <= STEADY * running
    return (mean, speed) if steady and mean >= 1 else None
