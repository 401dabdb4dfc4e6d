"""One look at a pod, whichever way it was taken."""

from msgspec import Struct, field

from cacheaware.decide.fleet import PodLoad, Unknown
from cacheaware_sidecar.engines.sample import EngineSample, Histogram
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.state import Counters, DrainState, ShapeState, StartState

SIDECAR = "Sidecar"
DIRECT = "Direct"


class Look(Struct, frozen=True, kw_only=True):
    """What one answer of a pod says."""

    at: float
    """The operator's monotonic clock when the answer had arrived."""
    way: str
    """Sidecar or Direct."""
    load: PodLoad | None = None
    unknown: Unknown | None = None
    """Why there is no load."""
    detail: str = ""
    """For people: what exactly went wrong."""
    phase: Phase | None = None
    """None in Direct, where only readiness tells."""
    sample_age_s: float = 0.0
    """How old the sample was when it arrived, in the pod's own reckoning."""
    seq: int | None = None
    """The sample's number: the same number again is the same sample again."""
    samples: tuple[EngineSample, ...] = ()
    """Direct only: what the next look's rates are measured against."""
    counters: Counters = field(default_factory=Counters)
    """The engine's own totals."""
    ttft: Histogram | None = None
    """Cumulative since the engine's start."""
    drain: DrainState = field(default_factory=DrainState)
    """Of its cordon or final drain, as its sidecar tells."""
    shapes: tuple[ShapeState, ...] = ()
    """What its warm-up has measured, or what has the fields of that."""
    findings: tuple[str, ...] = ()
    """Errors that its sidecar finds in its KV cache's health, by their ids."""
    start: StartState = field(default_factory=StartState)
    """How long it took to come, as its sidecar tells."""
