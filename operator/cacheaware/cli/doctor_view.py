"""How `cacheaware doctor` shows what it found."""

import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import typer

from cacheaware.cli.output import Format, console, print_json
from cacheaware.doctor.facts import Facts
from cacheaware.doctor.findings import Finding, Severity
from cacheaware.doctor.subject import Subject

WIDTH = 100
INDENT = " " * 9


def show(told: list[tuple[Subject, list[Finding]]], output: Format) -> None:
    """All findings, by workload."""
    if output is Format.JSON:
        print_json(
            {
                "workloads": [known_of(subject, found) for subject, found in told],
                "findings": [asdict(one) for _, found in told for one in found],
            }
        )
        return
    width = min(WIDTH, console().width)
    for place, (subject, found) in enumerate(told):
        if place:
            typer.echo()
        typer.echo(f"{subject.workload}: {summary(found)}{measured(subject.facts)}")
        for line in lines(found, width):
            typer.echo(line)


def summary(found: list[Finding]) -> str:
    """How many of which severity."""
    counts = Counter(one.severity for one in found)
    said = [f"{counts[one]} {one}{'s' * (counts[one] != 1)}" for one in Severity if counts[one]]
    return ", ".join(said) or "nothing found"


def known_of(subject: Subject, found: list[Finding]) -> dict[str, Any]:
    """A workload and the measured facts that its findings rest on; null where unknown."""
    facts = subject.facts
    return {
        "subject": str(subject.workload),
        "container": subject.engine.name,
        "engine": subject.engine.kind,
        "loadSeconds": facts.load_s,
        "longestRequestSeconds": facts.longest_request_s,
        "requests": facts.requests,
        "findings": len(found),
    }


def measured(facts: Facts) -> str:
    """The facts that were measured or told, in a few words."""
    said = []
    if facts.load_s is not None:
        said.append(f"loads in {facts.load_s:.0f} s")
    if facts.longest_request_s is not None:
        said.append(f"requests take up to {facts.longest_request_s:g} s (p99.9)")
    return f"; {', '.join(said)}" if said else ""


def lines(found: list[Finding], width: int) -> Iterator[str]:
    """Findings as a person reads them."""
    for one in found:
        yield f"{one.severity:<8} {one.id}"
        for text in filter(None, (one.message, one.fix and f"Fix: {one.fix}")):
            yield from textwrap.wrap(
                text, width, initial_indent=INDENT, subsequent_indent=INDENT,
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
