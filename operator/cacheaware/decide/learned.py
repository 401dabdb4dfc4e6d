"""What a workload has taught: how long it starts, how fast it prefills, what it is asked."""

from msgspec import Struct, field

from cacheaware.decide.cold_start import Starts
from cacheaware.decide.learned_work import Work
from cacheaware.decide.prefill_speed import Prefilled


class Learned(Struct, frozen=True, kw_only=True):
    """What starts and requests have taught; kept from round to round and in the status."""

    starts: Starts = ()
    prefill_tokens_per_s: float | None = None
    """Of one pod in service."""
    prefilled: Prefilled = field(default_factory=Prefilled)
    """What ended lately, in all pods."""
    work: Work = field(default_factory=Work)
    """What its requests are like."""
    taught_at: float | None = None
    """When looks last taught that, in the operator's clock."""
    nodes: tuple[str, ...] = ()
    """Nodes on which a pod has served, the newest last: the image is there."""
    counted: frozenset[str] = frozenset()
    """Uids of living pods whose start is counted, or was not seen."""
