"""Reads logs of OpenAI-style requests: one JSON object per line, under the usual names.

Of each group the first name that is there and not null counts, looked for in the object itself, in
its `usage`, `response`, `body` and inside of those (so lines of batch results and proxies' logs are
read as they are):

- time: timestamp, created, created_at, arrived_at, arrival_time, start_time, request_time, time,
  at: when the request came. Epoch seconds, ms, µs or ns (told by their size) or ISO 8601; a time
  without a zone is UTC.
- prompt: prompt_tokens, input_tokens, num_prompt_tokens, input_toks
- output: completion_tokens, output_tokens, generated_tokens, num_generation_tokens, output_toks
- client, optional: user, client, client_id, user_id. A number stays, a text gets a number that is
  the same in every process.
"""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from cacheaware_sim.traces.fields import (
    MOST_CLIENT,
    BadValueError,
    instant,
    output,
    prompt,
    whole,
)
from cacheaware_sim.traces.lines import json_rows, parsed
from cacheaware_sim.traces.trace import Notes, TraceRequest, in_order, rebased

TIMES = (
    "timestamp",
    "created",
    "created_at",
    "arrived_at",
    "arrival_time",
    "start_time",
    "request_time",
    "time",
    "at",
)
PROMPTS = ("prompt_tokens", "input_tokens", "num_prompt_tokens", "input_toks")
OUTPUTS = (
    "completion_tokens",
    "output_tokens",
    "generated_tokens",
    "num_generation_tokens",
    "output_toks",
)
CLIENTS = ("user", "client", "client_id", "user_id")
INSIDE = ("usage", "response", "body")


def read_request_log(path: Path, *, notes: Notes | None = None) -> Iterator[TraceRequest]:
    """The requests, the first one at 0; zero outputs as in `fields.output`.

    Raises:
        TraceError: One line, on iteration.
    """
    counted = Notes() if notes is None else notes

    def parse(row: dict[str, Any]) -> TraceRequest:
        places = list(_places(row))
        return TraceRequest(
            instant(*_needed(places, TIMES, "time")),
            prompt(*_needed(places, PROMPTS, "prompt tokens")),
            output(*_needed(places, OUTPUTS, "output tokens"), counted),
            _client(places),
        )

    return rebased(in_order(parsed(path, json_rows(path), parse), path))


def _places(row: dict[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    """The object and the known objects inside of it, outer ones first."""
    yield row
    if depth < len(INSIDE):
        for name in INSIDE:
            inner = row.get(name)
            if isinstance(inner, dict):
                yield from _places(inner, depth + 1)


def _first(places: list[dict[str, Any]], names: tuple[str, ...]) -> tuple[str, Any] | None:
    for place in places:
        for name in names:
            value = place.get(name)
            if value is not None:
                return name, value
    return None


def _needed(places: list[dict[str, Any]], names: tuple[str, ...], meaning: str) -> tuple[str, Any]:
    found = _first(places, names)
    if found is None:
        raise BadValueError(meaning, None, f"told by one of {', '.join(names)}")
    return found


def _client(places: list[dict[str, Any]]) -> int:
    found = _first(places, CLIENTS)
    if found is None:
        return 0
    name, value = found
    if isinstance(value, str):
        digest = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest) & MOST_CLIENT
    return whole(name, value, 0, MOST_CLIENT)
