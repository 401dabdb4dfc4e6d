"""What a trace is: requests in the order of their arrival, one at a time."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ORDER_WINDOW = 16_384
"""Rows that are held back to put a trace into order: logs are often written when a request ends."""


class TraceRequest(NamedTuple):
    """One request of a trace."""

    at: float
    """Seconds since the start of the trace."""
    prompt_tokens: int
    output_tokens: int
    client: int = 0
    """Who sent it: the same number, the same client. 0 where a trace does not tell."""
    prefix: tuple[int, ...] | None = None
    """Names of the leading full blocks, at the engine's block size; None: shares nothing."""


class TraceError(ValueError):
    """A trace that can't be used: one line with the file, the line and what is wrong there."""

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        super().__init__(f"{path}{'' if line is None else f':{line}'}: {problem}")


@dataclass(slots=True)
class Notes:
    """What a reader had to take in another way than it was written, counted while it reads."""

    zero_outputs: int = 0
    """Requests with zero output tokens, read as one token."""


def in_order(
    rows: Iterable[tuple[int, TraceRequest]], path: Path, window: int = ORDER_WINDOW
) -> Iterator[TraceRequest]:
    """The requests of (line, request) by time; rows of one time stay as they were.

    Holds `window` rows, whatever the length of the trace.

    Raises:
        TraceError: A row comes more than `window` rows too late, or there is none at all.
    """
    held: list[tuple[float, int, TraceRequest]] = []
    newest = float("-inf")
    for line, request in rows:
        entry = (request.at, line, request)
        if len(held) < window:
            heapq.heappush(held, entry)
            continue
        at, line_of_it, first = heapq.heappushpop(held, entry)
        if at < newest:
            raise TraceError(
                path,
                line_of_it,
                f"time {at:.15g}: comes after {newest:.15g}, "
                f"must be at most {window} rows out of order (sort the file by time)",
            )
        newest = at
        yield first
    if not held:
        raise TraceError(path, None, "holds no requests: must hold at least one")
    while held:
        yield heapq.heappop(held)[2]


def rebased(requests: Iterable[TraceRequest]) -> Iterator[TraceRequest]:
    """The requests with the first one at 0, times rounded to microseconds."""
    start: float | None = None
    for at, prompt_tokens, output_tokens, client, prefix in requests:
        if start is None:
            start = at
        yield TraceRequest(round(at - start, 6), prompt_tokens, output_tokens, client, prefix)
