"""Values of a row, checked: what a trace may hold."""

from datetime import UTC, datetime, timedelta
from math import isfinite

from cacheaware_sim.traces.trace import Notes

MOST_TOKENS = 10_000_000
"""Tokens of one prompt or one output."""
MOST_CLIENT = 2**63 - 1
LONGEST_S = 366 * 86_400.0
"""A trace whose times count from its own start is at most a year long."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATEST_EPOCH_S = 1e11
"""Larger numbers are milliseconds (up to 1e14), microseconds (1e17) or nanoseconds (1e20)."""
SHOWN = 60
"""Characters of a bad value that an error shows."""
MICROSECOND = timedelta(microseconds=1)


class BadValueError(ValueError):
    """A value of a row: its field, the value, what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        shown = repr(value)
        if len(shown) > SHOWN:
            shown = f"{shown[:SHOWN]}…"
        super().__init__(f"{field} {shown}: must be {allowed}")


def whole(field: str, value: object, least: int, most: int) -> int:
    """A whole number, written as such: no sign, no point, no exponent, no underscore."""
    number: object = value
    if type(value) is str:
        text = value.strip()
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
    if type(number) is not int or not least <= number <= most:
        raise BadValueError(field, value, f"a whole number from {least:,} to {most:,}")
    return number


def prompt(field: str, value: object) -> int:
    """Prompt tokens: at least one, no engine starts without a prompt."""
    return whole(field, value, 1, MOST_TOKENS)


def output(field: str, value: object, notes: Notes) -> int:
    """Output tokens. 0 is read as 1 and counted.

    None of the published traces holds a zero. Logs do, for requests that failed or were cut before
    their first token (BurstGPT's README says so): their prompts were work all the same, and an
    engine that has prefilled a prompt has also made one token.
    """
    tokens = whole(field, value, 0, MOST_TOKENS)
    if tokens == 0:
        notes.zero_outputs += 1
        return 1
    return tokens


def seconds(field: str, value: object, most: float = LONGEST_S) -> float:
    """Seconds since the start of the trace."""
    number = _number(value)
    if number is None or not 0 <= number <= most:
        raise BadValueError(field, value, f"seconds from 0 to {most:,.0f}")
    return number


def instant(field: str, value: object) -> float:
    """Seconds since 1970 from ISO 8601 or from epoch seconds, ms, µs or ns, told by their size.

    A time without a zone is UTC. Numbers up to 1e11 are seconds, so times that count from the start
    of a log are also read as seconds.
    """
    number = _number(value)
    if number is not None:
        for unit in (1.0, 1e3, 1e6, 1e9):
            if 0 <= number <= LATEST_EPOCH_S * unit:
                return number / unit
    elif isinstance(value, str):
        return moment(field, value)
    raise BadValueError(field, value, "epoch seconds, ms, µs or ns, or ISO 8601")


def moment(field: str, value: str) -> float:
    """Seconds since 1970 from ISO 8601, to the microsecond."""
    try:
        time = datetime.fromisoformat(value.strip())
    except ValueError:
        raise BadValueError(field, value, "a time as in 2023-11-16 18:15:46.6805900") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - EPOCH) / MICROSECOND / 1e6


def _number(value: object) -> float | None:
    """A finite number, or the one that a text holds."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and "_" in value:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None
