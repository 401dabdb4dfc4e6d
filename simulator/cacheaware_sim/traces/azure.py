"""Reads Azure's LLM inference traces (AzurePublicDataset, 2023 and 2024): times and tokens.

CSV with TIMESTAMP (ISO 8601, up to 7 decimals, UTC where no zone is told), ContextTokens,
GeneratedTokens. The traces tell nothing about clients or shared prefixes.
"""

from collections.abc import Iterator
from pathlib import Path

from cacheaware_sim.traces.fields import moment, output, prompt
from cacheaware_sim.traces.lines import csv_rows, parsed
from cacheaware_sim.traces.trace import Notes, TraceRequest, in_order, rebased

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def read_azure(path: Path, *, notes: Notes | None = None) -> Iterator[TraceRequest]:
    """The requests, the first one at 0; zero outputs as in `fields.output`.

    Raises:
        TraceError: One line, on iteration.
    """
    counted = Notes() if notes is None else notes

    def parse(row: tuple[str, ...]) -> TraceRequest:
        time, context, generated = row
        return TraceRequest(
            moment("TIMESTAMP", time),
            prompt("ContextTokens", context),
            output("GeneratedTokens", generated, counted),
        )

    return rebased(in_order(parsed(path, csv_rows(path, COLUMNS), parse), path))
