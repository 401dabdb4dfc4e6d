"""`cacheaware simulate bound`: what no policy can stay below on a trace."""

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli.output import Format, OutputOption, print_json, print_table
from cacheaware_sim.cli_options import (
    CoefficientsOption,
    ColdStartOption,
    FormatOption,
    FromOption,
    GpuOption,
    JitterOption,
    ModelOption,
    PrefixCachingOption,
    ScaleOption,
    ToOption,
    TpOption,
    TpotOption,
    TraceOption,
    TtftOption,
    clear_errors,
)

if TYPE_CHECKING:
    from cacheaware_sim.bound import BoundResult

EXTRAS = "sim,bench"


def bound(
    *,
    trace: TraceOption,
    trace_format: FormatOption = "auto",
    model: ModelOption = "llama-3.1-8b",
    gpu: GpuOption = "l40s",
    tp: TpOption = 1,
    coefficients: CoefficientsOption = "recommended",
    cold_start: ColdStartOption = 60.0,
    min_replicas: Annotated[
        int, typer.Option(min=0, help="the least pods; 0: the bound of any policy")
    ] = 0,
    start_replicas: Annotated[
        int | None, typer.Option(help="pods at the start", show_default="8")
    ] = None,
    scale: ScaleOption = 1.0,
    jitter: JitterOption = 0.0,
    seed: Annotated[int, typer.Option(help="of scaling")] = 0,
    slo_ttft_ms: TtftOption = 1000.0,
    slo_tpot_ms: TpotOption = 100.0,
    from_s: FromOption = 0.0,
    to_s: ToOption = math.inf,
    prefix_caching: PrefixCachingOption = "auto",
    output: OutputOption = Format.TABLE,
) -> None:
    """The fewest GPU-hours by which all work of a trace can be done in time, by any policy.

    A linear program over a fluid fleet that knows the whole trace and splits requests and pods at
    will. `simulate run --policy oracle` shows the other side: what knowing the trace really brings.
    """
    result = computed(
        min_replicas,
        trace=trace,
        policy="bound",
        format=trace_format,
        model=model,
        gpu=gpu,
        tp=tp,
        coefficients=coefficients,
        cold_start_s=cold_start,
        start_replicas=start_replicas,
        max_replicas=1000,
        scale=scale,
        jitter_s=jitter,
        seed=seed,
        slo_ttft_ms=slo_ttft_ms,
        slo_tpot_ms=slo_tpot_ms,
        from_s=from_s,
        to_s=to_s,
        prefix_caching=prefix_caching,
    )
    show(result, output)


def computed(min_replicas: int, **options: Any) -> "BoundResult":
    """The bound with these options."""
    with clear_errors(EXTRAS):
        from cacheaware_sim.bound import bound_of
        from cacheaware_sim.run_spec import RunSpec

        return bound_of(RunSpec(**options), min_replicas)


def show(result: "BoundResult", output: Format) -> None:
    """Print a bound."""
    shown = result.as_json()
    if output is Format.JSON:
        print_json(shown)
        return
    columns = ("GPU-HOURS", "STARTING", "WORK", "MEAN PODS", "PEAK PODS", "REQUESTS")
    keys = (
        "gpu_hours", "starting_gpu_hours", "work_gpu_hours", "mean_replicas", "peak_replicas",
        "requests",
    )  # fmt: skip
    print_table(columns, [[shown[key] for key in keys]])
