"""How `cacheaware doctor` shows what it found."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from cacheaware.cli.output import Format, print_json, text_width
from cacheaware.doctor.facts import Facts
from cacheaware.doctor.findings import Finding, Severity
from cacheaware.doctor.subject import Subject

if TYPE_CHECKING:
    from cacheaware.cli.doctor_health import Examined

INDENT = " " * 9


def show(
    told: list[tuple[Subject, list[Finding]]],
    output: Format,
    engines: Sequence["Examined"] | None = None,
) -> None:
    """All findings, by workload and by engine; `engines` is None where none was asked for."""
    if output is Format.JSON:
        print_json(answer(told, engines))
        return
    width = text_width()
    blocks = [workload_lines(subject, found, width) for subject, found in told]
    if engines:
        from cacheaware.cli.doctor_health_view import engine_lines

        blocks += [engine_lines(one, width) for one in engines]
    for place, block in enumerate(blocks):
        if place:
            typer.echo()
        for line in block:
            typer.echo(line)


def answer(
    told: list[tuple[Subject, list[Finding]]], engines: Sequence["Examined"] | None
) -> dict[str, Any]:
    """The JSON object."""
    found = [one for _, each in told for one in each]
    found += [one for each in engines or () for one in each.findings]
    shown = {
        "workloads": [known_of(subject, each) for subject, each in told],
        "findings": [asdict(one) for one in found],
    }
    if engines is None:
        return shown
    from cacheaware.cli.doctor_health_view import engines_json

    return shown | engines_json(engines)


def workload_lines(subject: Subject, found: list[Finding], width: int) -> Iterator[str]:
    """One workload as a person reads it."""
    yield f"{subject.workload}: {summary(found)}{measured(subject.facts)}"
    yield from lines(found, width)


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
