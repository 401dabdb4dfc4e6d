"""`cacheaware simulate validate`: the engine model held against real engines."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption, print_json, print_table
from cacheaware_sim.cli_options import missing

if TYPE_CHECKING:
    from cacheaware_sim.validate.report import FittedRun, Row


def validate(
    *,
    logs: Annotated[
        Path | None,
        typer.Option(
            help="a folder with RTXPRO6000_Llama-3.1-8B/requests.jsonl and "
            "RTX4090_Llama-3.1-8B/requests.jsonl; without it only the published table"
        ),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Compare the engine model with logs of a real vLLM and a published table.

    It is fitted anew to the first half of each log's requests and compared with the second: some
    ten seconds. Exit code 1 if a figure is further off than it may be.
    """
    try:
        from cacheaware_sim.traces.trace import TraceError
        from cacheaware_sim.validate.report import RUNS, static_rows, validated
    except ModuleNotFoundError as error:
        raise missing(error, "sim,bench") from error
    try:
        fitted = [] if logs is None else [validated(run, logs) for run in RUNS]
    except TraceError as error:
        raise BadInputError(f"--logs: {error}") from error
    rows = [*(row for one in fitted for row in one.rows), *static_rows()]
    show(fitted, rows, output)
    if not all(row.ok for row in rows):
        raise typer.Exit(1)


def show(fitted: "Sequence[FittedRun]", rows: "Sequence[Row]", output: Format) -> None:
    """Print what was compared and what was fitted."""
    if output is Format.JSON:
        print_json(
            {
                "fits": [one.as_json() for one in fitted],
                "rows": [{**asdict(row), "ok": row.ok} for row in rows],
            }
        )
        return
    columns = ("RUN", "TIME", "", "UNIT", "REAL", "SIMULATED", "ERROR", "WITHIN", "")
    print_table(columns, map(_cells, rows))
    for one in fitted:
        shared = "" if one.fit.shared is None else f", shared blocks {one.fit.shared:.2%}"
        values = ", ".join(f"{name} {value:.4g}" for name, value in asdict(one.fit.cost).items())
        typer.echo(
            f"{one.run.folder}: {values}, first prompt {one.fit.stall_s:.2f} s longer{shared}; "
            f"objective {one.fit.objective:.4f} after {one.fit.replays} replays"
        )


def _cells(row: "Row") -> tuple[object, ...]:
    limit = None if row.tolerance is None else f"{row.tolerance:.0%}"
    verdict = "" if row.tolerance is None else "ok" if row.ok else "OFF"
    numbers = row.real, row.simulated, f"{row.error:+.1%}"
    return row.run, row.time, row.figure, row.unit, *numbers, limit, verdict
