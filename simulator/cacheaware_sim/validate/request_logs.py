"""Logs that tell of each request when it came, and when its first and last token were out."""

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from cacheaware_sim.traces.fields import MOST_TOKENS, BadValueError, whole
from cacheaware_sim.traces.lines import json_rows, parsed
from cacheaware_sim.traces.trace import TraceError

LEAST_REQUESTS = 20
"""Fewer have no 90th percentile in each half."""


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """One request as an engine served it; times in seconds since the first one was queued."""

    queued_at: float
    first_token_at: float
    last_token_at: float
    prompt_tokens: int
    output_tokens: int

    @property
    def ttft_s(self) -> float:
        """Time to first token."""
        return self.first_token_at - self.queued_at

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first; None where there is only one.

        >>> ServedRequest(0.0, 1.0, 3.0, prompt_tokens=10, output_tokens=5).tpot_s
        0.5
        """
        if self.output_tokens < 2:
            return None
        return (self.last_token_at - self.first_token_at) / (self.output_tokens - 1)

    @property
    def e2e_s(self) -> float:
        """Time until the last token."""
        return self.last_token_at - self.queued_at


def read_request_log(path: Path) -> tuple[ServedRequest, ...]:
    """The requests of a log in the order in which they were queued.

    JSON lines with `input_toks`, `output_toks` and the seconds `queued_ts`, `first_token_ts` and
    `last_token_ts` of one clock, as LLMServingSim's bench writes them of vLLM.

    Raises:
        TraceError: One line: file, line, field, value, what is allowed.
    """
    rows = sorted((row for _, row in parsed(path, json_rows(path), _row)), key=_queued_at)
    if len(rows) < LEAST_REQUESTS:
        raise TraceError(path, None, f"{len(rows)} requests: must hold at least {LEAST_REQUESTS}")
    start = rows[0].queued_at
    return tuple(
        ServedRequest(
            row.queued_at - start,
            row.first_token_at - start,
            row.last_token_at - start,
            row.prompt_tokens,
            row.output_tokens,
        )
        for row in rows
    )


def _queued_at(request: ServedRequest) -> float:
    return request.queued_at


def _row(row: dict[str, Any]) -> ServedRequest:
    queued_at = _time(row, "queued_ts", 0.0)
    first_token_at = _time(row, "first_token_ts", queued_at)
    return ServedRequest(
        queued_at,
        first_token_at,
        _time(row, "last_token_ts", first_token_at),
        whole("input_toks", row.get("input_toks"), 1, MOST_TOKENS),
        whole("output_toks", row.get("output_toks"), 1, MOST_TOKENS),
    )


def _time(row: dict[str, Any], field: str, least: float) -> float:
    value = row.get(field)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not isfinite(value) or value < least:  # type: ignore[arg-type, operator]
        raise BadValueError(field, value, f"seconds, at least {least:.15g}")
    return float(value)  # type: ignore[arg-type]
