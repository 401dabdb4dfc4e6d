"""A published measurement that nothing was fitted to: two static replicas under too much load.

The documentation of llm-d's workload-variant-autoscaler publishes (docs/benchmark.md, mean of three
runs): a dense 32B model of the Qwen3 family on an H100, 20 requests per second as a Poisson process
for 600 s, two replicas. The engine's coefficients are the published kernel times of that model
(AIConfigurator 0.12.0) for one GPU in eager mode, as its guide sets the engines up. Only what had
finished when the time was over was counted.
"""

from dataclasses import dataclass
from statistics import quantiles

from cacheaware_sim.engine import Engine
from cacheaware_sim.engine_config import EngineConfig
from cacheaware_sim.iteration import IterationCost
from cacheaware_sim.request import Request
from cacheaware_sim.traces.lengths import Fixed
from cacheaware_sim.traces.wva import Scenario, Spacing, Stage
from cacheaware_sim.virtual_time import VirtualTimeEngine

REPLICAS = 2
DURATION_S = 600.0
LOAD = Stage(rate=20.0, duration_s=DURATION_S, spacing=Spacing.POISSON)
ENGINE = EngineConfig(
    cost=IterationCost(
        c0_ms=27.0, c1_ms_per_seq=0.03, c2_ms_per_ktok=0.0845, a1_ms_per_ktok=84.0,
        a2_ms_per_mtok2=2.97,
    ),
    num_blocks=44_000 // 16 + 1,
    max_model_len=32_768,
    max_num_seqs=1024,
    max_num_batched_tokens=8192,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Published:
    """A row of the table: 99th percentiles."""

    name: str
    prompt_tokens: int
    output_tokens: int
    itl_ms: float
    """Inter-token latency: of each request the mean."""
    ttft_s: float


TABLE = (
    Published("prefill-heavy", 4000, 1000, itl_ms=58.2, ttft_s=555.3),
    Published("decode-heavy", 1000, 4000, itl_ms=113.8, ttft_s=356.6),
    Published("symmetric", 1000, 1000, itl_ms=70.5, ttft_s=507.5),
)


@dataclass(frozen=True, slots=True)
class Simulated:
    """The same of the model."""

    itl_ms: float
    ttft_s: float
    finished: int


def simulated(published: Published, seed: int = 0) -> Simulated:
    """What the model makes of a row: requests go to the replicas in turn."""
    lengths = Fixed(published.prompt_tokens), Fixed(published.output_tokens)
    engines = [VirtualTimeEngine(Engine(ENGINE)) for _ in range(REPLICAS)]
    requests: list[Request] = []
    for number, one in enumerate(Scenario((LOAD,), *lengths).requests(seed)):
        engine = engines[number % REPLICAS]
        _until(engine, one.at)
        requests.append(Request(number, one.prompt_tokens, one.output_tokens))
        engine.submit(requests[-1], one.at)
    for engine in engines:
        _until(engine, DURATION_S)
    times = [times for request in requests if (times := _times(request)) is not None]
    return Simulated(
        itl_ms=_p99([itl for itl, _ in times]) * 1e3,
        ttft_s=_p99([ttft for _, ttft in times]),
        finished=len(times),
    )


def _until(engine: VirtualTimeEngine, now: float) -> None:
    while engine.wake_at is not None and engine.wake_at <= now:
        engine.advance(engine.wake_at)


def _times(request: Request) -> tuple[float, float] | None:
    first, last = request.first_token_at, request.finished_at
    if first is None or last is None:
        return None
    return (last - first) / (request.output_tokens - 1), first - request.arrived_at


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98]
