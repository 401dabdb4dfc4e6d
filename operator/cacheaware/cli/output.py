"""How commands print: a table for people, JSON for programs."""

import json
import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


class Format(StrEnum):
    """The value of `-o`."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[
    Format, typer.Option("-o", "--output", help="A table for people or JSON for programs.")
]


def print_json(value: Any) -> None:
    """Print JSON with a stable layout; a number that JSON can't hold is an error of ours."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


def print_table(columns: Iterable[str], rows: Iterable[Iterable[Any]], title: str = "") -> None:
    """Print a plain table; None shows as a dash, whole floats without a fraction."""
    table = Table(title=title or None, box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    console().print(table)


def console() -> Console:
    """A console that does not break lines when its output is piped."""
    plain = Console(highlight=False, markup=False)
    return plain if plain.is_terminal else Console(width=240, highlight=False, markup=False)


def cell(value: Any) -> str:
    """A value as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return f"{int(value):,}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
