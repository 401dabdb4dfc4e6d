"""How the runs of `cacheaware probe canary` are shown: a table, and JSON with stable keys."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from cacheaware.cli.config_files import printable
from cacheaware.cli.probe import show

if TYPE_CHECKING:
    from cacheaware.cli.probe_canary_runs import Repeat
    from cacheaware.doctor.findings import Finding
    from cacheaware_sidecar.canary.baseline import Baseline
    from cacheaware_sidecar.canary.compare import Comparison


def as_json(
    own: "Baseline",
    runs: "Sequence[Repeat]",
    compared: "Sequence[Comparison]",
    found: "list[Finding]",
    *,
    drifted: bool | None,
) -> dict[str, Any]:
    """The JSON object; its keys are stable. `drifted` is null without a baseline."""
    return {
        **asdict(own.identity),
        "way": own.way.value,
        "step": own.step,
        "prompt_tokens": len(own.runs[0].prompt),
        "answer_tokens": len(own.runs[0].answer),
        "runs": [
            {
                "beside": run.beside,
                "tokens": one.tokens,
                "difference_nats": one.mean,
                "tolerance_nats": one.tolerance,
                "largest_nats": one.largest,
                "changed_ratio": one.changed,
                "first_changed": one.first_changed,
                "drifted": one.drifted,
            }
            for run, one in zip(runs, compared, strict=True)
        ],
        "drifted": drifted,
        "findings": [asdict(one) for one in found],
    }


def show_runs(
    own: "Baseline",
    runs: "Sequence[Repeat]",
    compared: "Sequence[Comparison]",
    found: "list[Finding]",
    *,
    is_compared: bool,
    saved: str | None,
) -> None:
    """Who answered, a row for each run, the findings, and what came of it.

    Args:
        own: The runs as a baseline of their own.
        runs: What was asked.
        compared: Each of them with the baseline, or with the others.
        found: The findings.
        is_compared: Whether there is a baseline.
        saved: The file in which the runs were kept.
    """
    from cacheaware_sidecar.canary.compare import CONFIRM

    first, identity = own.runs[0], own.identity
    engine = " ".join(part for part in (identity.engine, identity.version) if part) or "unknown"
    typer.echo(
        printable(
            f"{identity.model or 'unknown model'} on {engine}, asked by {own.way}:"
            f" {len(first.prompt)} tokens of the prompt and {len(first.answer)} of the answer"
        )
        + "\ndifferences are of log probabilities, in nats\n"
    )
    titles = ("run", "beside", "tokens", "difference", "tolerance", "largest", "changed", "drifted")
    rows = [
        (
            number,
            run.beside,
            one.tokens,
            one.mean,
            one.tolerance,
            one.largest,
            one.changed,
            "yes" if one.drifted else "no",
        )
        for number, (run, one) in enumerate(zip(runs, compared, strict=True), 1)
    ]
    show(titles, rows, found)
    if is_compared and not found:
        drifted = sum(one.drifted for one in compared)
        said = f"{drifted} of {len(compared)} runs have drifted, not all of the last {CONFIRM}"
        typer.echo("\n" + (said if drifted else "No drift: all runs are within the tolerance."))
    if saved is not None:
        typer.echo(f"\n{printable(saved)}: kept as a baseline of {len(runs)} runs")
