"""Reads Mooncake's traces (FAST '25 release): JSONL with the hashes of the prompts' prefixes.

timestamp (ms since the start), input_length, output_length, hash_ids: one id per 512 tokens of the
prompt, the last one for what is left; an id is the same only if everything before is the same, too.

Two things are undone here. Timestamps are quantised to about 3.0 s (1,180 values for 12,031 rows of
the conversation trace): the requests of one timestamp get uniform times until the next one, at most
3.0 s, in the order of the file. And engines name smaller blocks: an id becomes 512 / block size
names, id x 32 + 0..31 at blocks of 16 tokens, as many of them as the prompt fills.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Any

from cacheaware_sim.traces.fields import LONGEST_S, BadValueError, output, prompt, seconds, whole
from cacheaware_sim.traces.lines import json_rows, parsed
from cacheaware_sim.traces.randomness import stream
from cacheaware_sim.traces.trace import Notes, TraceError, TraceRequest, in_order

HASHED_TOKENS = 512
BIN_S = 3.0
MOST_IN_BIN = 100_000
"""Requests of one timestamp: they are held until the next one is known."""
MOST_HASH_ID = 2**40


def read_mooncake(
    path: Path, *, seed: int = 0, block_size: int = 16, notes: Notes | None = None
) -> Iterator[TraceRequest]:
    """The requests, from 0 on, with jitter inside the bins; zero outputs as in `fields.output`.

    Raises:
        ValueError: `block_size` does not divide 512.
        TraceError: One line, on iteration.
    """
    if block_size < 1 or HASHED_TOKENS % block_size:
        raise ValueError(f"block_size {block_size}: must divide {HASHED_TOKENS}")
    counted = Notes() if notes is None else notes

    def parse(row: dict[str, Any]) -> TraceRequest:
        tokens = prompt("input_length", row.get("input_length"))
        return TraceRequest(
            seconds("timestamp", row.get("timestamp"), LONGEST_S * 1e3) / 1e3,
            tokens,
            output("output_length", row.get("output_length"), counted),
            prefix=_hash_ids(row.get("hash_ids"), tokens),
        )

    quantised = in_order(parsed(path, json_rows(path), parse), path)
    return _named(_spread(path, quantised, stream(seed, "mooncake bins")), block_size)


def _hash_ids(value: object, prompt_tokens: int) -> tuple[int, ...] | None:
    if value is None:
        return None
    most = -(-prompt_tokens // HASHED_TOKENS)
    if not isinstance(value, list) or len(value) > most:
        raise BadValueError("hash_ids", value, f"a list of at most {most}, one per 512 tokens")
    ids = tuple([whole("hash_ids", one, 0, MOST_HASH_ID) for one in value])
    if len(set(ids)) != len(ids):
        raise BadValueError("hash_ids", value, "a list without an id twice")
    return ids


def _spread(path: Path, requests: Iterable[TraceRequest], rng: Random) -> Iterator[TraceRequest]:
    """Uniform times inside the bins, the first bin at 0."""
    start: float | None = None
    width = BIN_S
    held: list[TraceRequest] = []
    for at, same in groupby(requests, key=attrgetter("at")):
        start = at if start is None else start
        if held:
            width = min(at - held[0].at, BIN_S)
            yield from _within(held, start, width, rng)
        held = _bounded(path, same)
    yield from _within(held, start or 0.0, width, rng)


def _bounded(path: Path, same: Iterable[TraceRequest]) -> list[TraceRequest]:
    held: list[TraceRequest] = []
    for request in same:
        if len(held) == MOST_IN_BIN:
            value = round(request.at * 1e3)
            raise TraceError(
                path, None, f"timestamp {value}: must be that of at most {MOST_IN_BIN:,} requests"
            )
        held.append(request)
    return held


def _within(
    held: list[TraceRequest], start: float, width: float, rng: Random
) -> Iterator[TraceRequest]:
    offsets = sorted(rng.random() * width for _ in held)
    for request, offset in zip(held, offsets, strict=True):
        yield request._replace(at=request.at - start + offset)


def _named(requests: Iterable[TraceRequest], block_size: int) -> Iterator[TraceRequest]:
    names = HASHED_TOKENS // block_size
    for request in requests:
        if request.prefix is None:
            yield request
            continue
        blocks = chain.from_iterable(
            [range(one * names, one * names + names) for one in request.prefix]
        )
        full = request.prompt_tokens // block_size
        yield request._replace(prefix=tuple(islice(blocks, full)))
