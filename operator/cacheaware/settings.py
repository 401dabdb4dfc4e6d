"""The operator's settings, read once from the environment."""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from cacheaware.decide.room import NODE_SECONDS

T = TypeVar("T")
LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class SettingError(ValueError):
    """One clear line: the variable, its value and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How `cacheaware run` runs."""

    namespaces: tuple[str, ...] = ()
    """Empty: all."""
    round_seconds: float = 5.0
    node_seconds: float = NODE_SECONDS
    """So long a pod waits for a node before its order is taken back."""
    port: int = 8080
    """Of /healthz, /readyz and /metrics."""
    lease_namespace: str = "default"
    """The operator's own namespace; also the name of this installation."""
    pod_name: str = "cacheaware"
    """Who holds the Lease."""
    pod_namespace: str | None = None
    """Where the operator runs; None outside a cluster."""
    service_account: str | None = None
    """As whom; None outside a cluster. Control calls to sidecars are made with its tokens."""
    scrape_concurrency: int = 256
    log_format: str = "text"
    log_level: str = "INFO"

    @property
    def stale_seconds(self) -> float:
        """A sample older than three rounds is unknown."""
        return 3 * self.round_seconds

    @property
    def scrape_seconds(self) -> float:
        """The time a pod has to answer: a hung one must not stretch the round."""
        return min(3.0, 0.6 * self.round_seconds)


def from_environment(env: Mapping[str, str] = os.environ) -> Settings:
    """Read the CACHEAWARE_ variables.

    Raises:
        SettingError: a value is not allowed.
    """
    value = Reader(env)
    return Settings(
        namespaces=value("NAMESPACES", namespaces, ()),
        round_seconds=value("ROUND_SECONDS", number(1, 300), 5.0),
        node_seconds=value("NODE_SECONDS", number(10, 86_400), NODE_SECONDS),
        port=int(value("PORT", number(1, 65535, whole=True), 8080.0)),
        lease_namespace=value(
            "LEASE_NAMESPACE", str, env.get("CACHEAWARE_POD_NAMESPACE") or "default"
        ),
        pod_name=value("POD_NAME", str, socket.gethostname()),
        pod_namespace=env.get("CACHEAWARE_POD_NAMESPACE") or None,
        service_account=value("SERVICE_ACCOUNT", str, "") or None,
        scrape_concurrency=int(value("SCRAPE_CONCURRENCY", number(1, 4096, whole=True), 256.0)),
        log_format=value("LOG_FORMAT", one_of(LOG_FORMATS), "text"),
        log_level=value("LOG_LEVEL", one_of(LOG_LEVELS, upper=True), "INFO"),
    )


class Reader:
    """Reads one variable; an empty one counts as not set."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    def __call__(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """The parsed value.

        Raises:
            SettingError: `parse` refused it.
        """
        variable = f"CACHEAWARE_{name}"
        text = self._env.get(variable, "").strip()
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise SettingError(f"{variable}={text!r}: {error}") from None


def namespaces(text: str) -> tuple[str, ...]:
    """A comma-separated list of names.

    Raises:
        ValueError: a name can't be that of a namespace.
    """
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in found:
        if not name.replace("-", "").isalnum() or name != name.lower() or len(name) > 63:
            raise ValueError(f"{name!r} is not a namespace's name; allowed: a,b,c")
    return found


def number(low: float, high: float, *, whole: bool = False) -> Callable[[str], float]:
    """A parser of numbers within bounds."""

    def parse(text: str) -> float:
        allowed = f"allowed: a {'whole ' if whole else ''}number from {low:g} to {high:g}"
        try:
            value = float(int(text) if whole else text)
        except ValueError:
            raise ValueError(allowed) from None
        if not low <= value <= high:
            raise ValueError(allowed)
        return value

    return parse


def one_of(allowed: tuple[str, ...], *, upper: bool = False) -> Callable[[str], str]:
    """A parser of a word out of a few."""

    def parse(text: str) -> str:
        value = text.upper() if upper else text
        if value not in allowed:
            raise ValueError(f"allowed: {', '.join(allowed)}")
        return value

    return parse
