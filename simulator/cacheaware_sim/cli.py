"""`cacheaware simulate ...`: the commands that the simulator adds to the command line."""

import asyncio
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption, print_json, print_table
from cacheaware_sim import cli_bench, cli_bound, cli_run, cli_validate
from cacheaware_sim.__main__ import NEEDS_EXTRA
from cacheaware_sim.__main__ import serve as serve_engine
from cacheaware_sim.cli_options import FormatOption, FromOption, ScaleOption, ToOption
from cacheaware_sim.load_plan import LoadPlan
from cacheaware_sim.load_result import LoadResult
from cacheaware_sim.load_trace import LoadError, LoadTrace
from cacheaware_sim.settings import SettingError

WHOLE_TRACE = {"format": "auto", "from_s": 0.0, "to_s": math.inf, "scale": 1.0}

simulate = typer.Typer(
    help="Policies against traces in virtual time; a mock engine, and load for it.",
    no_args_is_help=True,
)
RUN = "cacheaware simulate run --trace azure-conv-like --policy cacheaware --to 60"
BENCH = "cacheaware simulate bench --only conv-20min --policies cacheaware --seeds 1 --data data"
BOUND = "cacheaware simulate bound --trace azure-conv-like --to 60"
VALIDATE = "cacheaware simulate validate -o json"
LOAD = "cacheaware simulate load http://127.0.0.1:8000 --rate 4 --duration 2"

simulate.command(epilog=f"Example: {RUN}")(cli_run.run)
simulate.command(epilog=f"Example: {BENCH}")(cli_bench.bench)
simulate.command(epilog=f"Example: {BOUND}")(cli_bound.bound)
simulate.command(epilog=f"Example: {VALIDATE}")(cli_validate.validate)


def register(app: typer.Typer) -> None:
    """Add the group (entry point `cacheaware.commands`)."""
    app.add_typer(simulate, name="simulate")


@simulate.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def serve(context: typer.Context) -> None:
    """A mock engine: vLLM's API and metrics page over a model of an engine."""
    try:
        serve_engine(context.args)
    except SettingError as error:
        raise BadInputError(str(error)) from error
    except ModuleNotFoundError as error:
        raise BadInputError(NEEDS_EXTRA) from error


@simulate.command(epilog=f"Example: {LOAD}")
def load(
    url: Annotated[str, typer.Argument(help="the engine or service, e.g. http://127.0.0.1:8000")],
    *,
    rate: Annotated[float | None, typer.Option(help="requests per second, open loop")] = None,
    concurrency: Annotated[int | None, typer.Option(help="clients, closed loop")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="a file: its requests at their times, with their tokens")
    ] = None,
    trace_format: FormatOption = "auto",
    from_s: FromOption = 0.0,
    to_s: ToOption = math.inf,
    scale: ScaleOption = 1.0,
    requests: Annotated[int | None, typer.Option(help="send no more than this many")] = None,
    duration: Annotated[float | None, typer.Option(help="send for this many seconds")] = None,
    at_least: Annotated[int, typer.Option(help="send these even if SIGTERM comes earlier")] = 0,
    prompt_tokens: Annotated[
        int | None,
        typer.Option(help="by the mock engine's tokenizer", show_default="128, or the trace's"),
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option(help="asked for as max_tokens", show_default="64, or the trace's")
    ] = None,
    shared_tokens: Annotated[int, typer.Option(help="the same at the start of all prompts")] = 0,
    stream: Annotated[bool, typer.Option(help="answers as a stream")] = True,
    keep_alive: Annotated[bool, typer.Option(help="reuse connections, as a pool does")] = False,
    timeout: Annotated[float, typer.Option(help="seconds for one request")] = 300.0,
    max_in_flight: Annotated[int, typer.Option(help="limit of an open loop")] = 1000,
    slo_ttft_ms: Annotated[
        float | None, typer.Option(help="target: time to the first token")
    ] = None,
    slo_tpot_ms: Annotated[
        float | None, typer.Option(help="target: time per further token")
    ] = None,
    model: Annotated[str | None, typer.Option(help="default: the first that is served")] = None,
    api_key: Annotated[str | None, typer.Option(envvar="CACHEAWARE_SIM_API_KEY")] = None,
    seed: Annotated[int, typer.Option(help="of arrivals, scaling and prompts")] = 0,
    output: OutputOption = Format.TABLE,
) -> None:
    """Send bounded load, and count what was lost. Exit code 1 if a request failed.

    SIGTERM ends the sending; what is in flight is waited for and counted.
    """
    try:
        plan = LoadPlan(
            url=url,
            rate=rate,
            concurrency=concurrency,
            trace=_trace(
                trace, format=trace_format, from_s=from_s, to_s=to_s, scale=scale, seed=seed
            ),
            requests=requests,
            duration_s=duration,
            at_least=at_least,
            **_lengths(trace, prompt_tokens, output_tokens),
            shared_tokens=shared_tokens,
            stream=stream,
            keep_alive=keep_alive,
            timeout_s=timeout,
            max_in_flight=max_in_flight,
            slo_ttft_ms=slo_ttft_ms,
            slo_tpot_ms=slo_tpot_ms,
            model=model,
            api_key=api_key,
            seed=seed,
        )
    except LoadError as error:
        raise BadInputError(str(error)) from error
    result = _generate(plan)
    _show(result, output)
    if result.failed or result.not_sent:
        raise typer.Exit(1)


def _trace(path: Path | None, *, seed: int, **part: Any) -> LoadTrace | None:
    """The part of a trace that these options name.

    Raises:
        LoadError: Options of a trace without one, or a value that makes no sense.
    """
    if path is not None:
        return LoadTrace(path=path, seed=seed, **part)
    if part != WHOLE_TRACE:
        raise LoadError("format, from, to, scale: tell what of a trace is sent, and need trace")
    return None


def _lengths(trace: Path | None, prompt: int | None, output: int | None) -> dict[str, int]:
    """The lengths that are given.

    Raises:
        LoadError: A trace has its own.
    """
    lengths = {"prompt_tokens": prompt, "output_tokens": output}
    given = {name: tokens for name, tokens in lengths.items() if tokens is not None}
    if trace is not None and given:
        raise LoadError("prompt-tokens, output-tokens: a trace tells them, so not beside trace")
    return given


def _generate(plan: LoadPlan) -> LoadResult:
    try:
        from cacheaware_sim.load import LostError, generate_until_told  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        raise BadInputError(NEEDS_EXTRA) from error
    try:
        return asyncio.run(generate_until_told(plan))
    except (LoadError, LostError) as error:
        raise BadInputError(str(error)) from error


def _show(result: LoadResult, output: Format) -> None:
    shown = result.as_json()
    if output is Format.JSON:
        print_json(shown)
        return
    failed = ", ".join(f"{kind} {count}" for kind, count in shown["failed"].items())
    counts = ("sent", "ok", "failed", "not sent", "seconds")
    numbers = (result.sent, result.ok, failed or 0, result.not_sent, shown["duration_s"])
    print_table(counts, [numbers])
    times = [
        (name, *(f"{value * 1e3:.1f}" for value in shown[f"{name}_s"].values()))
        for name in ("ttft", "tpot", "e2e")
        if shown[f"{name}_s"] is not None
    ]
    print_table(("ms", "mean", "p50", "p90", "p99", "max"), times)
    if (attained := shown["attainment_percent"]) is not None:
        typer.echo(f"within the targets: {attained:g} %")
