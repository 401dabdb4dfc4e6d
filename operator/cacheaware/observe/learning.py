"""What a round's looks teach of a workload: its starts, how fast it prefills, what it is asked."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from cacheaware.decide.cold_start import ColdStart, percentile
from cacheaware.decide.learned import Learned
from cacheaware.decide.prefill_speed import in_service
from cacheaware.observe.cold_starts import learned_from
from cacheaware.observe.learned_work import with_work
from cacheaware.observe.memory import PodMemory
from cacheaware.pods import PodRecord


def taught(
    learned: Learned, records: Sequence[PodRecord], memories: dict[str, PodMemory], now: float
) -> tuple[Learned, tuple[ColdStart, ...]]:
    """What is known now, and the starts that are new.

    Args:
        learned: up to now.
        records: the target's pods.
        memories: their pasts, this round's looks included; each look is to teach once.
        now: the operator's monotonic clock.
    """
    learned, fresh = learned_from(learned, records, memories)
    there = [memories[record.uid] for record in records if record.uid in memories]
    return with_work(with_speed(learned, there), records, memories, now), fresh


def with_speed(learned: Learned, pods: Iterable[PodMemory]) -> Learned:
    """What is known of the speed of prefill, with what this round's looks tell of it."""
    prefilled, idle = learned.prefilled, []
    for pod in pods:
        prefilled = prefilled.with_more(pod.prefilled)
        if pod.prefill_tokens_per_s is not None:
            idle.append(pod.prefill_tokens_per_s)
    speed = in_service(prefilled, percentile(idle, 50))
    return replace(
        learned,
        prefilled=prefilled,
        prefill_tokens_per_s=learned.prefill_tokens_per_s if speed is None else speed,
    )
