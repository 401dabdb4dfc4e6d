"""How a configuration is refused, and how a layout is said to be unknown."""

from typing import Any

_LONGEST = 40


class ConfigError(ValueError):
    """A field that can't be right: one line with the field, its value and what is allowed."""


class UnknownLayoutError(Exception):
    """The rules don't cover this architecture; the text says why. Never leaves the package."""


def refusal(field: str, value: Any, allowed: str) -> ConfigError:
    """The error for one field: `num_hidden_layers is -1: allowed are whole numbers 1..10,000`."""
    return ConfigError(f"{field} is {shown(value)}: {allowed}")


def shown(value: Any) -> str:
    """A value in at most a few dozen characters, on one line, whatever it is."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)} keys"
    text = ascii(value[:_LONGEST] if isinstance(value, str) else value)
    return text if len(text) <= _LONGEST + 2 else f"{text[:_LONGEST]}..."
