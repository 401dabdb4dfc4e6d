"""Tables and numbers in Markdown."""

from collections.abc import Iterable, Sequence

UNKNOWN = "-"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table: the first column is text, the others are numbers.

    >>> print(table(["a", "b"], [["x", "1"]]))
    | a | b |
    | --- | ---: |
    | x | 1 |
    """
    rule = ["---", *("---:" for _ in columns[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))


def number(value: float | None, digits: int = 2) -> str:
    """A number; a dash where it is not known.

    >>> number(1234.5, 1), number(None)
    ('1,234.5', '-')
    """
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    """A difference, with its sign.

    >>> percent(3.14), percent(-0.04), percent(None)
    ('+3.1 %', '0.0 %', '-')
    """
    if value is None:
        return UNKNOWN
    shown = f"{value:+.{digits}f}"
    return f"{0:.{digits}f} %" if float(f"{value:.{digits}f}") == 0 else f"{shown} %"


def seconds(milliseconds: float | None) -> str:
    """Milliseconds as seconds.

    >>> seconds(1234.5)
    '1.23'
    """
    return UNKNOWN if milliseconds is None else number(milliseconds / 1e3)


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed([])
    ('a', 'a, b and c', 'none')
    """
    if not names:
        return "none"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
