"""A run's timeline as a CSV file: one row for each scrape, columns as the fields of `Row`."""

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from cacheaware_sim.fleet.timeline import Row

COLUMNS = tuple(one.name for one in fields(Row))
_WHOLE = frozenset(one.name for one in fields(Row) if one.type is int)


@contextmanager
def timeline_writer(path: Path) -> Iterator[Callable[[Row], None]]:
    """Writes rows as they come."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)

        def write(row: Row) -> None:
            writer.writerow(_text(getattr(row, name)) for name in COLUMNS)

        yield write


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def read_timeline(path: Path) -> list[Row]:
    """The rows of a file that `timeline_writer` has written."""
    with path.open(encoding="utf-8", newline="") as file:
        return [Row(**{name: _value(name, row[name]) for name in COLUMNS}) for row in _rows(file)]


def _rows(file: Any) -> Iterator[dict[str, str]]:
    return csv.DictReader(file)


def _value(name: str, text: str) -> Any:
    if not text:
        return None
    return int(text) if name in _WHOLE else float(text)
