"""What one run of the simulator is to be: all options, checked when they are made."""

import math
from dataclasses import dataclass
from pathlib import Path

from cacheaware_sim.fleet.faults import FAULT_SETS
from cacheaware_sim.fleet.routing import ROUTERS
from cacheaware_sim.policies.capacity import LatencyTargets
from cacheaware_sim.policies.policy import Limits
from cacheaware_sim.profiles import COEFFICIENTS, Profile, profile_of
from cacheaware_sim.traces.formats import AUTO, FORMATS
from cacheaware_sim.traces.generate import MARGINALS
from cacheaware_sim.traces.reshape import MOST

START_REPLICAS = 8
GRACE_S = {"finish": 30.0, "abort": 0.0}
"""What a deleted pod has to finish its requests, by what its engine does on SIGTERM."""
CHOICES = {
    "format": (AUTO, *FORMATS),
    "coefficients": tuple(COEFFICIENTS),
    "variant": ("default", "tuned"),
    "router": tuple(ROUTERS),
    "shutdown": tuple(GRACE_S),
    "prefix-caching": ("auto", "on", "off"),
    "faults": tuple(FAULT_SETS),
}


class SpecError(ValueError):
    """An option that can't be used: one line with its name, its value and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """A trace, a model on a GPU, a policy, and how requests, starts and faults go.

    Raises:
        SpecError: One line that names the option, its value and what is allowed.
    """

    trace: Path
    """A file, or where none has that name a generator's name."""
    policy: str
    format: str = AUTO
    model: str = "llama-3.1-8b"
    gpu: str = "l40s"
    tp: int = 1
    """GPUs of one pod."""
    coefficients: str = "recommended"
    cold_start_s: float = 60.0
    """The mean; pods differ by `cold_start_deviation_s`."""
    min_replicas: int = 1
    max_replicas: int = 40
    start_replicas: int | None = None
    """None: as many as a constant policy has, else 8 within the limits."""
    scale: float = 1.0
    """Each request so many times, each copy up to 2 s later."""
    jitter_s: float = 0.0
    """At scale 1, each request up to so much later: the same load in another run per seed."""
    seed: int = 0
    slo_ttft_ms: float = 1000.0
    slo_tpot_ms: float = 100.0
    from_s: float = 0.0
    to_s: float = math.inf
    variant: str = "default"
    """Of a peer's settings: as shipped, or tuned."""
    router: str = "least-queue"
    shutdown: str = "finish"
    prefix_caching: str = "auto"
    """Of the engines: auto is on where prompts of the trace share blocks."""
    faults: str = "none"
    target_attainment: float = 99.0
    """Per cent of requests that the oracle's plan has to satisfy; of no meaning to others."""

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if (value := getattr(self, name.replace("-", "_"))) not in allowed:
                raise SpecError(f"{name} {value}: must be one of {', '.join(allowed)}")
        _check("cold-start", self.cold_start_s, 0 <= self.cold_start_s <= 86_400, "0 to 86400")
        _check("scale", self.scale, 0 < self.scale <= MOST, f"above 0 and at most {MOST:g}")
        _check("jitter", self.jitter_s, 0 <= self.jitter_s <= 60, "0 to 60")
        for name in ("slo_ttft_ms", "slo_tpot_ms"):
            value = getattr(self, name)
            _check(name.replace("_", "-"), value, 0 < value < math.inf, "above 0")
        _check("from", self.from_s, 0 <= self.from_s < math.inf, "at least 0")
        _check("to", self.to_s, self.to_s > self.from_s, f"above from, {self.from_s:g}")
        _check("min-replicas", self.min_replicas, self.min_replicas >= 1, "at least 1")
        least = self.min_replicas
        enough = least <= self.max_replicas <= 1000
        _check("max-replicas", self.max_replicas, enough, f"{least} (min-replicas) to 1000")
        if self.start_replicas is not None:
            within = least <= self.start_replicas <= self.max_replicas
            limits = f"{least} to {self.max_replicas}"
            _check("start-replicas", self.start_replicas, within, limits)
        share = self.target_attainment
        _check("target-attainment", share, 0 < share <= 100, "above 0 and at most 100")
        self.profile()

    def profile(self) -> Profile:
        """The model on its GPU, at the chosen coefficients."""
        try:
            profile = profile_of(self.model, self.gpu, self.tp)
        except ValueError as error:
            raise SpecError(str(error)) from None
        return profile.at(self.coefficients)

    @property
    def generator(self) -> str | None:
        """What makes the trace; None: it is read from a file."""
        name = str(self.trace)
        return name if name in MARGINALS and not self.trace.exists() else None

    @property
    def limits(self) -> Limits:
        """The least and the most replicas."""
        return Limits(self.min_replicas, self.max_replicas)

    @property
    def first_replicas(self) -> int:
        """Pods that serve when the trace begins, where no policy has a number of its own."""
        if self.start_replicas is None:
            return self.limits.clamp(START_REPLICAS)
        return self.start_replicas

    @property
    def targets(self) -> LatencyTargets:
        """What a request must meet, in seconds."""
        return LatencyTargets(self.slo_ttft_ms / 1e3, self.slo_tpot_ms / 1e3)

    @property
    def cold_start_deviation_s(self) -> float:
        """3 s of 15, 10 of 60, 30 of 240: a fifth up to ten seconds, and never below an eighth.

        >>> RunSpec(trace=Path("x"), policy="x", cold_start_s=240).cold_start_deviation_s
        30.0
        """
        return max(min(self.cold_start_s / 5, 10.0), self.cold_start_s / 8)


def _check(name: str, value: float, holds: bool, allowed: str) -> None:
    if not holds:
        raise SpecError(f"{name} {value:g}: must be {allowed}")
