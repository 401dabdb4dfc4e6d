"""What a policy sees of the fleet: the newest scrape of each pod, as stale as it is, no more."""

from dataclasses import dataclass

from cacheaware_sidecar.engines.sample import EngineSample
from cacheaware_sidecar.phase import Phase


@dataclass(frozen=True, slots=True)
class PodSample:
    """One pod as the API server, its sidecar and the newest scrape of its engine show it."""

    name: str
    created_at: float
    phase: Phase
    """As its sidecar tells: loading, serving, cordoned, draining. Peers have no sidecar."""
    ready: bool
    terminating: bool
    sample: EngineSample | None
    """The newest good scrape; None if there is none yet, or while metrics are stale."""
    sampled_at: float | None
    """When it was taken, in virtual seconds."""
    arrival_age_s: float | None = None
    """Since the last request came. Only the sidecar tells."""
    cordoned_s: float = 0.0
    """Since the cordon. Only the sidecar tells."""
    empty: bool = False
    """Nothing runs or waits. Only the sidecar tells."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The fleet at `now`, in virtual seconds."""

    now: float
    replicas: int
    """What the target asks for (spec.replicas)."""
    pods: tuple[PodSample, ...]
    """All that exist, terminating ones too."""
