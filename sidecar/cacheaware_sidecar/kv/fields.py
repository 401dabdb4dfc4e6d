"""Reads fields of a config.json: the first name that is there, checked, with clear errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cacheaware_sidecar.kv.errors import ConfigError, refusal

LARGEST = 100_000_000
"""No count or size in a real config.json comes near it."""


@dataclass(frozen=True, slots=True)
class Fields:
    """An object of a config.json and where it stands in the file (`text_config.`)."""

    values: Mapping[str, Any]
    path: str = ""

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.values.get(name) is not None

    def first(self, *names: str) -> str | None:
        """The first of these fields that is there and not null."""
        return next((name for name in names if self.has(name)), None)

    def integer(self, *names: str, low: int = 1, high: int = LARGEST) -> int | None:
        """The first of these fields as a whole number in low..high; None where none is there.

        Raises:
            ConfigError: It is something else (a string, a boolean, a fraction, out of range).
        """
        name = self.first(*names)
        return None if name is None else whole(self.path + name, self.values[name], low, high)

    def required(self, *names: str, low: int = 1, high: int = LARGEST) -> int:
        """Like `integer`, where a missing field is an error that lists the names tried."""
        value = self.integer(*names, low=low, high=high)
        if value is None:
            raise ConfigError(f"{self.path}{names[0]} is missing: {_one_of(names, low, high)}")
        return value

    def integers(self, name: str, count: int, low: int = 0, high: int = LARGEST) -> tuple[int, ...]:
        """A list of whole numbers, one for each of `count` layers."""
        entries = self.entries(name, count)
        return tuple(
            whole(f"{self.path}{name}[{index}]", entry, low, high)
            for index, entry in enumerate(entries)
        )

    def entries(self, name: str, count: int, spare: int = 0) -> tuple[Any, ...]:
        """A list with one entry per layer; `spare` more (draft layers at the end) are cut off."""
        entries = self.array(name)
        if len(entries) not in {count, count + spare}:
            lengths = f"({len(entries)} vs {count})"
            raise ConfigError(
                f"{self.path}{name} has {len(entries)} entries for {count} layers {lengths}: "
                f"one entry per layer is allowed"
            )
        return entries[:count]

    def array(self, name: str) -> tuple[Any, ...]:
        """A field that must be a list."""
        value = self.values[name]
        if not isinstance(value, list | tuple):
            raise refusal(self.path + name, value, "allowed is a list")
        return tuple(value)

    def flag(self, name: str) -> bool | None:
        """A boolean, or None where it is missing or null."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise refusal(self.path + name, value, "allowed are true and false")
        return value

    def text(self, name: str) -> str | None:
        """A string, or None where it is missing or null."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise refusal(self.path + name, value, "allowed is a string")
        return value

    def child(self, name: str) -> "Fields | None":
        """An object inside this one; None where it is missing, null or empty."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise refusal(self.path + name, value, "allowed is an object")
        return Fields(value, f"{self.path}{name}.") if value else None


def whole(field: str, value: Any, low: int, high: int) -> int:
    """The value if it is a whole number in low..high; booleans and 32.0 are none."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise refusal(field, value, f"allowed are whole numbers {low:,}..{high:,}")
    return value


def _one_of(names: tuple[str, ...], low: int, high: int) -> str:
    others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
    return f"a whole number {low:,}..{high:,} is needed{others}"
