"""The workloads of the benchmark, as data: a trace, what its requests must meet, the fleet's size.

Targets: a second to the first token and 100 ms per token for conversations; 200 ms for code, whose
prompts hold up each other's decoding. Mooncake's are those of its paper (FAST '25): 30 s and
100 ms. Reasoning models answer after their thoughts: 5 s. The prefill-heavy workload is generated;
its targets are what a pod that is loaded to a half keeps.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from cacheaware_sim.traces.generate import MARGINALS

HOUR_S = 3600.0
TRAIN_S = 1200.0
"""The first 20 minutes of Azure's traces are the train split: nothing is tuned on the rest."""
MAX_REPLICAS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A trace and what to make of it."""

    name: str
    title: str
    trace: str
    """A file in the data folder's `traces`, or a generator."""
    scale: float = 1.0
    jitter_s: float = 0.0
    """So that seeds differ where nothing is scaled or generated."""
    slo_ttft_ms: float
    slo_tpot_ms: float
    from_s: float = 0.0
    to_s: float
    router: str = "least-queue"
    constants: tuple[int, ...]
    """The front: so many pods of the 8B model on L40S, from far too few to more than enough."""
    levels: tuple[float, ...] = (99.0,)
    """Per cent of requests that are of interest: the oracle's targets, lines of the tables."""
    oracle_levels: tuple[float, ...] = ()
    """Further targets of the oracle alone: so that ours lies between two of them."""

    @property
    def generated(self) -> bool:
        """Whether it needs no file."""
        return self.trace in MARGINALS

    def path(self, data: Path) -> Path:
        """Its file, or its generator's name."""
        return Path(self.trace) if self.generated else data / "traces" / self.trace

    def first(self, seconds: float) -> "Workload":
        """The beginning of it."""
        return replace(self, to_s=self.from_s + seconds)


CONV = Workload(
    name="conv",
    title="Azure conv x4",
    trace="azure2023/AzureLLMInferenceTrace_conv.csv",
    scale=4,
    slo_ttft_ms=1000,
    slo_tpot_ms=100,
    to_s=HOUR_S,
    constants=(4, 5, 6, 7, 8, 10, 12, 16),
    levels=(95.0, 99.0),
    oracle_levels=(99.5,),
)
CODE = Workload(
    name="code",
    title="Azure code x2",
    trace="azure2023/AzureLLMInferenceTrace_code.csv",
    scale=2,
    slo_ttft_ms=1000,
    slo_tpot_ms=200,
    to_s=HOUR_S,
    constants=(2, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24),
    levels=(90.0, 95.0, 99.0),
)
MOONCAKE = Workload(
    name="mooncake",
    title="Mooncake conversation",
    trace="mooncake/conversation_trace.jsonl",
    slo_ttft_ms=30_000,
    slo_tpot_ms=100,
    to_s=HOUR_S,
    router="prefix-aware",
    constants=(12, 14, 16, 18, 20, 24, 28, 32, 40),
    levels=(95.0,),
    oracle_levels=(85.0, 90.0),
)
R1 = Workload(
    name="r1",
    title="ServeGen R1, two hours",
    trace="servegen/r1_24h_x0.25.csv.gz",
    jitter_s=2.0,
    slo_ttft_ms=5000,
    slo_tpot_ms=100,
    from_s=HOUR_S,
    to_s=3 * HOUR_S,
    constants=(8, 10, 12, 13, 14, 16, 20, 24),
    oracle_levels=(99.5,),
)
PREFILL = Workload(
    name="prefill-heavy",
    title="prefill-heavy, generated",
    trace="prefill-heavy",
    slo_ttft_ms=2000,
    slo_tpot_ms=200,
    to_s=HOUR_S,
    constants=(5, 6, 7, 8, 9, 10, 12, 14, 16, 20),
    levels=(90.0, 99.0),
    oracle_levels=(98.0, 99.8),
)
R1_DAY = replace(
    R1,
    name="r1-day",
    title="ServeGen R1, the day",
    from_s=0.0,
    to_s=24 * HOUR_S,
    constants=(12, 13, 14, 15, 16, 18, 20, 24),
    oracle_levels=(),
)
STANDARD = (CONV, CODE, MOONCAKE, R1, PREFILL)
ALL = (*STANDARD, R1_DAY)

QUICK_CONV = replace(
    CONV.first(TRAIN_S),
    name="conv-20min",
    title="20 minutes of conv x4",
    constants=(5, 6, 7, 8, 10),
)
QUICK_CODE = replace(
    CODE.first(TRAIN_S),
    name="code-20min",
    title="20 minutes of code x2",
    constants=(4, 6, 8, 10, 12, 16, 20, 24),
)
QUICK = (QUICK_CONV, QUICK_CODE)
QUICK_GENERATED = (
    replace(QUICK_CONV, name="conv-like", title="like conv x4", trace="azure-conv-like"),
    replace(QUICK_CODE, name="code-like", title="like code x2", trace="azure-code-like"),
)
"""For who has no files: fronts of their own. Each like its neighbour in `QUICK`."""
