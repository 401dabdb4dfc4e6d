"""How commands print: a table for people, JSON for programs."""

import json
import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

TEXT = 40
"""Columns of more characters are text, the only ones that are wrapped."""
TEXT_AT_LEAST = 20
GAP = 2
PROSE = 100
"""Columns of sentences at most: longer lines are hard to read."""
WHOLE = 1000
"""From here on a number is shown without a fraction."""


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
    """Print a plain table; in a small terminal only text is wrapped, never a name or a number."""
    table = Table(title=title or None, box=None, header_style="bold", pad_edge=False)
    lines = [list(columns), *([cell(value) for value in row] for row in rows)]
    widths = [max(map(longest_line, column)) for column in zip(*lines, strict=True)]
    for head, width in zip(lines[0], widths, strict=True):
        table.add_column(head, overflow="fold", no_wrap=width <= TEXT)
    for line in lines[1:]:
        table.add_row(*line)
    needed = sum(width if width <= TEXT else TEXT_AT_LEAST for width in widths)
    console(needed + GAP * (len(widths) - 1)).print(table)


def longest_line(text: str) -> int:
    """Characters of the longest line."""
    return max(map(len, text.split("\n")))


def console(needed: int = 0) -> Console:
    """A console of at least `needed` columns that does not break lines when its output is piped."""
    plain = Console(highlight=False, markup=False)
    width = max(plain.width if plain.is_terminal else 240, needed)
    return Console(width=width, highlight=False, markup=False)


def text_width() -> int:
    """Columns that sentences may take: those of the terminal, at most `PROSE`."""
    return min(PROSE, console().width)


def cell(value: Any) -> str:
    """A value as a person reads it: None is a dash, a fraction has at most four figures."""
    if value is None:
        return "-"
    if isinstance(value, float) and math.isfinite(value):
        whole = value == int(value) or abs(value) >= WHOLE
        return f"{value:,.0f}" if whole else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
