"""`cacheaware probe canary`: whether a running engine answers as a healthy one did."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cacheaware.cli.config_files import printable
from cacheaware.cli.errors import BadInputError
from cacheaware.cli.output import Format, OutputOption, print_json
from cacheaware.cli.probe import BaselineOption, SaveOption, ended, plain, probe, save_new, text_of
from cacheaware.cli.probe_canary_view import as_json, show_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cacheaware.cli.probe_canary_runs import Repeat
    from cacheaware.doctor.findings import Finding
    from cacheaware_sidecar.canary.baseline import Baseline
    from cacheaware_sidecar.canary.compare import Comparison


@probe.command(
    epilog="Example: cacheaware probe canary --engine http://127.0.0.1:8000 --save healthy.json"
)
def canary(  # noqa: PLR0917 - typer reads options from parameters
    engine: Annotated[
        str, typer.Option("--engine", metavar="URL", help="The engine.", show_default=False)
    ],
    baseline: BaselineOption = None,
    save: SaveOption = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Its name; else the first that is served.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="A text file as canary, for a new baseline.")
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=4, max=16, help="Runs of a baseline.")
    ] = 8,
    beside: Annotated[
        int,
        typer.Option(
            "--beside", min=0, max=32, help="Requests sent along with every second run: noise."
        ),
    ] = 3,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the bearer token that the engine asks for.")
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="PEM file of the authority of its certificate.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for one answer.")] = 30.0,
    output: OutputOption = Format.TABLE,
) -> int:
    """Ask a running engine a fixed prompt and compare log probabilities with a healthy engine's.

    Greedy, through its OpenAI API, without torch. The sidecar does the same by schedule. Exit code
    1: three runs on end have drifted beyond what the baseline's own repeats explain.
    """
    if not 0 < timeout <= 3600:
        raise BadInputError(f"--timeout is {timeout}; allowed: more than 0, up to 3600 seconds")
    if prompt is not None and baseline is not None:
        raise BadInputError("--prompt goes without --baseline, which has its own")
    from cacheaware.cli.probe_canary_runs import Asking, ask_in_turn, engine_settings
    from cacheaware_sidecar.canary.compare import CONFIRM

    healthy = None if baseline is None else stored(baseline)
    asking = Asking(
        healthy=healthy,
        prompt=None if prompt is None else prompt_in(prompt),
        model=model,
        count=repeats if save is not None or healthy is None else CONFIRM,
        beside=beside,
        timeout_s=timeout,
    )
    runs = asyncio.run(ask_in_turn(engine_settings(engine, token_file, ca_file), asking))
    own = as_baseline(runs, asking.text)
    if save is not None:
        keep(save, own)
    compared = [compared_with(healthy or own, one, baseline) for one in runs]
    found = findings(engine, compared) if healthy or compared[-1].broken else []
    if output is Format.JSON:
        drifted = bool(found) if healthy else None
        print_json(plain(as_json(own, runs, compared, found, drifted=drifted)))
    else:
        show_runs(own, runs, compared, found, is_compared=healthy is not None, saved=save)
    return ended(found)


def stored(name: str) -> "Baseline":
    """The baseline in a file.

    Raises:
        BadInputError: it can't be read as one.
    """
    from cacheaware_sidecar.canary.baseline_json import LARGEST, BaselineError, from_text

    text = text_of("--baseline", name, LARGEST)
    try:
        return from_text(text)
    except (BaselineError, ValueError) as error:
        raise BadInputError(f"--baseline {printable(name)}: {error}") from error


def prompt_in(name: str) -> str:
    """The prompt in a file.

    Raises:
        BadInputError: it can't be read, or is too long.
    """
    from cacheaware_sidecar.canary.baseline_json import LONGEST_PROMPT

    text = text_of("--prompt", name, 4 * LONGEST_PROMPT)
    if not 0 < len(text) <= LONGEST_PROMPT:
        raise BadInputError(
            f"--prompt {printable(name)}: has {len(text):,} characters; allowed: 1 to"
            f" {LONGEST_PROMPT:,}"
        )
    return text


def as_baseline(runs: "Sequence[Repeat]", prompt: str) -> "Baseline":
    """The runs as a baseline of their own."""
    from cacheaware_sidecar.canary.baseline import Baseline
    from cacheaware_sidecar.canary.logit_step import step_of

    first = runs[0].asked
    return Baseline(
        identity=first.identity,
        prompt=prompt,
        way=first.way,
        runs=tuple(one.asked.run for one in runs),
        step=step_of(first.run),
    )


def compared_with(healthy: "Baseline", one: "Repeat", name: str | None) -> "Comparison":
    """A run against the baseline.

    Raises:
        BadInputError: they are not of one thing.
    """
    from cacheaware_sidecar.canary.baseline import NotComparableError, check_identity
    from cacheaware_sidecar.canary.compare import compare

    where = "--engine" if name is None else f"--baseline {printable(name)}"
    try:
        check_identity(healthy.identity, one.asked.identity)
        return compare(healthy, one.asked.run)
    except NotComparableError as error:
        raise BadInputError(f"{where}: not comparable: {error}") from error


def keep(name: str, own: "Baseline") -> None:
    """Write a baseline; a file that is there is not replaced.

    Raises:
        BadInputError: there is one, it can't be written, or the runs are none of a healthy model.
    """
    from cacheaware_sidecar.canary.baseline_json import as_text
    from cacheaware_sidecar.canary.compare import is_broken

    if any(map(is_broken, own.runs)):
        raise BadInputError(
            f"--save {printable(name)}: a log probability is no number: this is no healthy model"
        )
    save_new(name, as_text(own))


def findings(subject: str, compared: "Sequence[Comparison]") -> list["Finding"]:
    """A drift that the last runs on end show."""
    from cacheaware.doctor.findings import Finding, Severity
    from cacheaware_sidecar.canary.finding import drift

    on_end = 0
    for one in compared:
        on_end = on_end + 1 if one.drifted else 0
    found = drift(compared[-1], on_end)
    if found is None:
        return []
    return [Finding(found.id, Severity(found.severity), subject, found.message, found.fix)]
