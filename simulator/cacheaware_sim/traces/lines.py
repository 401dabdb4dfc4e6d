"""Lines of text files, plain or gzipped, one at a time."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from cacheaware_sim.traces.fields import BadValueError
from cacheaware_sim.traces.trace import TraceError

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 16 * 2**20
"""Bytes: a logged request may hold its whole prompt."""

Row = TypeVar("Row")
Read = TypeVar("Read")


def lines(path: Path) -> Iterator[str]:
    """The lines with their ends; gzip is told by its first bytes, a byte order mark is dropped.

    Raises:
        TraceError: Not there, not UTF-8 text, a broken archive, or a line longer than 16 MiB.
    """
    line = 0
    with ExitStack() as stack:
        try:
            file = stack.enter_context(_opened(path, stack))
            for raw in iter(lambda: file.readline(LONGEST_LINE), b""):
                line += 1
                yield _text(path, line, raw)
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise TraceError(path, line + 1 if line else None, f"not readable: {reason}") from None


def _opened(path: Path, stack: ExitStack) -> io.BufferedReader:
    file = stack.enter_context(path.open("rb"))
    if file.peek(2)[:2] != GZIP_MAGIC:
        return file
    return io.BufferedReader(stack.enter_context(gzip.GzipFile(fileobj=file)), 2**16)


def _text(path: Path, line: int, raw: bytes) -> str:
    if b"\0" in raw:
        raise TraceError(path, line, "binary data: must be UTF-8 text, plain or gzipped")
    if len(raw) >= LONGEST_LINE:
        raise TraceError(path, line, f"line of over {LONGEST_LINE:,} bytes: must be shorter")
    if line == 1:
        raw = raw.removeprefix(BYTE_ORDER_MARK)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        byte = f"byte 0x{raw[error.start]:02x}"
        raise TraceError(path, line, f"{byte}: must be UTF-8 text, plain or gzipped") from None


def csv_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line, the values of these columns), in any order in the file and among others.

    Raises:
        TraceError: A column is missing, twice there, or a row has another number of fields.
    """
    reader = csv.reader(lines(path), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        places = [_place(path, header, name) for name in columns]
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise TraceError(
                    path, reader.line_num, f"{len(row)} fields: must be {len(header)}, as above"
                )
            yield reader.line_num, tuple([row[place] for place in places])
    except csv.Error as error:
        raise TraceError(path, reader.line_num, f"is no CSV: {error}") from None


def _place(path: Path, header: Sequence[str], name: str) -> int:
    if header.count(name) == 1:
        return header.index(name)
    shown = ",".join(header)
    raise TraceError(
        path, 1, str(BadValueError("header", shown, f"column names with {name} once among them"))
    )


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, the JSON object on it); blank lines are skipped.

    Raises:
        TraceError: A line that is no JSON object.
    """
    for line, text in enumerate(lines(path), 1):
        if text.isspace():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise TraceError(
                path, line, str(BadValueError("line", text.strip(), "one whole JSON object"))
            )
        yield line, row


def parsed(
    path: Path, rows: Iterable[tuple[int, Row]], parse: Callable[[Row], Read]
) -> Iterator[tuple[int, Read]]:
    """(line, what `parse` makes of a row); a bad value gets its file and line."""
    for line, row in rows:
        try:
            yield line, parse(row)
        except BadValueError as bad:
            raise TraceError(path, line, str(bad)) from None
