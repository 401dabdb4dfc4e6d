"""`cacheaware simulate ...`: the commands that the simulator adds to the command line."""

import asyncio
from typing import Annotated

import typer

from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption, print_json, print_table
from cacheaware_sim import cli_bench, cli_bound, cli_run, cli_validate
from cacheaware_sim.__main__ import NEEDS_EXTRA
from cacheaware_sim.__main__ import serve as serve_engine
from cacheaware_sim.load_plan import LoadError, LoadPlan
from cacheaware_sim.load_result import LoadResult
from cacheaware_sim.settings import SettingError

simulate = typer.Typer(
    help="Policies against traces in virtual time; a mock engine, and load for it.",
    no_args_is_help=True,
)
simulate.command()(cli_run.run)
simulate.command()(cli_bench.bench)
simulate.command()(cli_bound.bound)
simulate.command()(cli_validate.validate)


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


@simulate.command()
def load(
    url: Annotated[str, typer.Argument(help="the engine or service, e.g. http://127.0.0.1:8000")],
    *,
    rate: Annotated[float | None, typer.Option(help="requests per second, open loop")] = None,
    concurrency: Annotated[int | None, typer.Option(help="clients, closed loop")] = None,
    requests: Annotated[int | None, typer.Option(help="send no more than this many")] = None,
    duration: Annotated[float | None, typer.Option(help="send for this many seconds")] = None,
    at_least: Annotated[int, typer.Option(help="send these even if SIGTERM comes earlier")] = 0,
    prompt_tokens: Annotated[int, typer.Option(help="by the mock engine's tokenizer")] = 128,
    output_tokens: Annotated[int, typer.Option(help="asked for as max_tokens")] = 64,
    shared_tokens: Annotated[int, typer.Option(help="the same at the start of all prompts")] = 0,
    stream: Annotated[bool, typer.Option(help="answers as a stream")] = True,
    keep_alive: Annotated[bool, typer.Option(help="reuse connections, as a pool does")] = False,
    timeout: Annotated[float, typer.Option(help="seconds for one request")] = 300.0,
    max_in_flight: Annotated[int, typer.Option(help="limit of an open loop")] = 1000,
    model: Annotated[str | None, typer.Option(help="default: the first that is served")] = None,
    api_key: Annotated[str | None, typer.Option(envvar="CACHEAWARE_SIM_API_KEY")] = None,
    seed: Annotated[int, typer.Option(help="of arrivals and prompts")] = 0,
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
            requests=requests,
            duration_s=duration,
            at_least=at_least,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            shared_tokens=shared_tokens,
            stream=stream,
            keep_alive=keep_alive,
            timeout_s=timeout,
            max_in_flight=max_in_flight,
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


def _generate(plan: LoadPlan) -> LoadResult:
    try:
        from cacheaware_sim.load import LostError, generate_until_told  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        raise BadInputError(NEEDS_EXTRA) from error
    try:
        return asyncio.run(generate_until_told(plan))
    except LostError as error:
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
