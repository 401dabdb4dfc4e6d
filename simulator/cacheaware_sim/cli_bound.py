"""`cacheaware simulate bound`: what no policy can stay below on a trace."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption, print_json, print_table

if TYPE_CHECKING:
    from cacheaware_sim.bound import BoundResult

NEEDS_EXTRA = "pip install 'cacheaware[sim,bench]' brings it"


def bound(
    *,
    trace: Annotated[Path, typer.Option(help="a file; or a generator, e.g. azure-conv-like")],
    trace_format: Annotated[
        str,
        typer.Option("--format", help="azure, mooncake, servegen, wva, request-log; auto looks"),
    ] = "auto",
    model: Annotated[str, typer.Option(help="with --gpu and --tp: the profile")] = "llama-3.1-8b",
    gpu: Annotated[str, typer.Option(help="l40s, a100, h100, h200, ...")] = "l40s",
    tp: Annotated[int, typer.Option(help="GPUs per pod (tensor parallel)")] = 1,
    coefficients: Annotated[
        str, typer.Option(help="recommended: c0 + 8 %, a1 + 20 %; raw: kernel times alone")
    ] = "recommended",
    cold_start: Annotated[float, typer.Option(help="mean seconds from ordered to serving")] = 60.0,
    min_replicas: Annotated[
        int, typer.Option(min=0, help="the least pods; 0: the bound of any policy")
    ] = 0,
    start_replicas: Annotated[
        int | None, typer.Option(help="pods at the start", show_default="8")
    ] = None,
    scale: Annotated[float, typer.Option(help="each request so often, within 2 s")] = 1.0,
    seed: Annotated[int, typer.Option(help="of scaling")] = 0,
    slo_ttft_ms: Annotated[float, typer.Option(help="target: time to the first token")] = 1000.0,
    slo_tpot_ms: Annotated[float, typer.Option(help="target: time per further token")] = 100.0,
    from_s: Annotated[float, typer.Option("--from", help="second of the trace to begin at")] = 0.0,
    to_s: Annotated[
        float, typer.Option("--to", help="second to end before", show_default="the end")
    ] = math.inf,
    prefix_caching: Annotated[
        str, typer.Option(help="on, off, or auto: on where prompts of the trace share blocks")
    ] = "auto",
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
    try:
        from cacheaware_sim.bound import bound_of
        from cacheaware_sim.run_spec import RunSpec, SpecError
        from cacheaware_sim.traces.trace import TraceError
    except ModuleNotFoundError as error:
        raise BadInputError(f"{error.name} is not installed; {NEEDS_EXTRA}") from error
    try:
        return bound_of(RunSpec(**options), min_replicas)
    except SpecError as error:
        raise BadInputError(f"--{error}") from error
    except TraceError as error:
        raise BadInputError(str(error)) from error


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
