"""`cacheaware simulate run`: a policy against a trace, in virtual time."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cacheaware.cli.errors import BadInputError
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
    brings,
    clear_errors,
)

if TYPE_CHECKING:
    from cacheaware_sim.run_result import RunResult

PICTURES = (".png", ".svg", ".pdf")
EXTRAS = "sim,plot"


def run(
    *,
    trace: TraceOption,
    policy: Annotated[
        str, typer.Option(help="cacheaware, constant-N, oracle, a peer; a wrong name lists all")
    ],
    trace_format: FormatOption = "auto",
    model: ModelOption = "llama-3.1-8b",
    gpu: GpuOption = "l40s",
    tp: TpOption = 1,
    coefficients: CoefficientsOption = "recommended",
    cold_start: ColdStartOption = 60.0,
    min_replicas: Annotated[int, typer.Option(help="the least pods")] = 1,
    max_replicas: Annotated[int, typer.Option(help="the most pods")] = 40,
    start_replicas: Annotated[
        int | None,
        typer.Option(help="pods at the start; 8, of constants their own number", show_default="8"),
    ] = None,
    scale: ScaleOption = 1.0,
    jitter: JitterOption = 0.0,
    seed: Annotated[int, typer.Option(help="of scaling, cold starts, routing, faults")] = 0,
    slo_ttft_ms: TtftOption = 1000.0,
    slo_tpot_ms: TpotOption = 100.0,
    from_s: FromOption = 0.0,
    to_s: ToOption = math.inf,
    variant: Annotated[
        str, typer.Option(help="of a peer's settings: default or tuned")
    ] = "default",
    router: Annotated[
        str, typer.Option(help="least-queue, round-robin, random or prefix-aware")
    ] = "least-queue",
    shutdown: Annotated[
        str, typer.Option(help="a deleted pod's engine: finish (within 30 s) or abort")
    ] = "finish",
    prefix_caching: PrefixCachingOption = "auto",
    faults: Annotated[
        str,
        typer.Option(
            help="none, pod-killed, metrics-stale, slow-node, slow-starts, writes-refused or all"
        ),
    ] = "none",
    target_attainment: Annotated[
        float, typer.Option(help="% of requests within the targets that the oracle has to reach")
    ] = 99.0,
    timeline: Annotated[
        Path | None,
        typer.Option(
            help="CSV, a row each 5 s", show_default="timeline-POLICY-TRACE.csv in this directory"
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="draw the run: demand, replicas, KV use, TTFT (.png)")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Play a trace against a fleet that a policy scales: who met the targets, at what cost.

    In virtual time: an hour of forty pods takes seconds. Always writes the timeline, a CSV file.
    Generators make an hour, or until --to: azure-conv-like, azure-code-like, servegen-r1-like,
    steady, bursty, prefill-heavy.
    """
    if plot is not None:
        check_plot(plot)
    result = played(
        timeline or default_timeline(policy, trace),
        trace=trace,
        policy=policy,
        format=trace_format,
        model=model,
        gpu=gpu,
        tp=tp,
        coefficients=coefficients,
        cold_start_s=cold_start,
        min_replicas=min_replicas,
        max_replicas=max_replicas,
        start_replicas=start_replicas,
        scale=scale,
        jitter_s=jitter,
        seed=seed,
        slo_ttft_ms=slo_ttft_ms,
        slo_tpot_ms=slo_tpot_ms,
        from_s=from_s,
        to_s=to_s,
        variant=variant,
        router=router,
        shutdown=shutdown,
        prefix_caching=prefix_caching,
        faults=faults,
        target_attainment=target_attainment,
    )
    if plot is not None:
        draw_run(result, plot)
    show(result, output)


def check_plot(plot: Path) -> None:
    """Refuse before the run what would fail after it."""
    if plot.suffix not in PICTURES:
        raise BadInputError(f"--plot {plot}: must end with {', '.join(PICTURES)}")
    if not plot.parent.is_dir():
        raise BadInputError(f"--plot {plot}: must be in a directory that exists")
    if find_spec("matplotlib") is None:
        raise BadInputError(f"--plot {plot}: matplotlib is not installed; {brings(EXTRAS)}")


def default_timeline(policy: str, trace: Path) -> Path:
    """In the current directory, named by the policy and the trace; a second run overwrites it.

    >>> str(default_timeline("constant-7", Path("/a/r1.csv.gz")))
    'timeline-constant-7-r1.csv'
    """
    return Path(f"timeline-{policy}-{trace.name.split('.')[0]}.csv")


def played(timeline: Path, **options: Any) -> "RunResult":
    """The result of a run with these options, its timeline written."""
    with clear_errors(EXTRAS):
        from cacheaware_sim.run_spec import RunSpec
        from cacheaware_sim.simulate import run as run_spec

        spec = RunSpec(**options)
        with progress(spec.policy) as on_progress:
            return run_spec(spec, timeline=timeline, on_progress=on_progress)


@contextmanager
def progress(name: str) -> Iterator[Callable[[float], None] | None]:
    """A bar on the terminal; where stderr is none, nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def draw_run(result: "RunResult", plot: Path) -> None:
    """Draw what the timeline's file tells."""
    from cacheaware_sim.plot import draw
    from cacheaware_sim.timeline_file import read_timeline

    if result.timeline_file is not None:
        draw(read_timeline(Path(result.timeline_file)), result, plot)


def show(result: "RunResult", output: Format) -> None:
    """Print what a run has brought."""
    shown = result.as_json()
    if output is Format.JSON:
        print_json(shown)
        return
    columns = (
        "POLICY", "ATTAINED %", "GPU-HOURS", "REQUESTS", "LOST", "UNFINISHED", "MEAN PODS",
        "SCALE EVENTS", "FLAPS",
    )  # fmt: skip
    keys = (
        "policy", "attainment_percent", "gpu_hours", "requests", "lost", "unfinished",
        "mean_replicas", "scale_events", "flaps",
    )  # fmt: skip
    print_table(columns, [[shown[key] for key in keys]])
    print_table(
        ("MS", "P50", "P90", "P99", "TARGET"),
        [
            ("TTFT", *shown["ttft_ms"].values(), shown["slo_ttft_ms"]),
            ("TPOT", *shown["tpot_ms"].values(), shown["slo_tpot_ms"]),
        ],
    )
    if search := shown["oracle"]:
        typer.echo(
            f"oracle: {'reached' if search['reached'] else 'can not reach'} "
            f"{search['target_attainment_percent']:g} % in {search['runs']} runs, pods loaded to "
            f"{search['utilization']:g}, work over {search['smoothing_bins']} bins of 5 s"
        )
    if shown["never_fit"]:
        typer.echo(f"{shown['never_fit']} requests are longer than a pod's KV cache: lost")
    typer.echo(f"timeline: {shown['timeline_file']}")
