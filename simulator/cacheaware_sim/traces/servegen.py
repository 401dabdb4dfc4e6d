"""Reads traces made from ServeGen's client data (Alibaba): CSV or CSV.gz, with clients.

arrived_at (seconds since the start of the trace), input_tokens, output_tokens, client (a number).
"""

from collections.abc import Iterator
from pathlib import Path

from cacheaware_sim.traces.fields import MOST_CLIENT, output, prompt, seconds, whole
from cacheaware_sim.traces.lines import csv_rows, parsed
from cacheaware_sim.traces.trace import Notes, TraceRequest, in_order

COLUMNS = ("arrived_at", "input_tokens", "output_tokens", "client")


def read_servegen(path: Path, *, notes: Notes | None = None) -> Iterator[TraceRequest]:
    """The requests at the times of the file; zero outputs as in `fields.output`.

    Raises:
        TraceError: One line, on iteration.
    """
    counted = Notes() if notes is None else notes

    def parse(row: tuple[str, ...]) -> TraceRequest:
        arrived_at, prompts, outputs, client = row
        return TraceRequest(
            seconds("arrived_at", arrived_at),
            prompt("input_tokens", prompts),
            output("output_tokens", outputs, counted),
            whole("client", client, 0, MOST_CLIENT),
        )

    return in_order(parsed(path, csv_rows(path, COLUMNS), parse), path)
