"""What a container does before SIGTERM: its preStop hook, and how long that may take."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cacheaware.workload.command import program, split

DRAIN_PATH = "/drain/wait"
DRAIN_SCRIPT = "/wait.py"
SLEEP = re.compile(r"(?:\S*sh -c )?(?:exec )?(?:\S*/)?sleep (\d{1,9}(?:\.\d+)?)([smhd]?);?")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class HookKind(StrEnum):
    """What a preStop hook does, as far as its manifest tells."""

    NONE = "none"
    SLEEP = "sleep"
    DRAIN = "drain"
    """Ours: waits for the last request, and ends by itself before the grace period does."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Hook:
    """A preStop hook."""

    kind: HookKind
    seconds: float | None = None
    """How long it takes; None where the manifest does not tell."""
    by_script: bool = False
    """Ours in its robust form: wait.py, which survives a dead sidecar."""
    script: str | None = None
    """Where that script is in the container."""
    port: int | str | None = None
    """What an httpGet asks."""


def hook_of(container: Any) -> Hook:
    """The preStop hook of a container."""
    hook = (container.get("lifecycle") or {}).get("preStop") or {}
    if not hook:
        return Hook(HookKind.NONE, 0.0)
    if (sleep := (hook.get("sleep") or {}).get("seconds")) is not None:
        return Hook(HookKind.SLEEP, float(sleep))
    asked = hook.get("httpGet") or {}
    if str(asked.get("path", "")).startswith(DRAIN_PATH):
        return Hook(HookKind.DRAIN, port=asked.get("port"))
    words = [str(word) for word in (hook.get("exec") or {}).get("command") or ()]
    return exec_hook(words)


def exec_hook(words: list[str]) -> Hook:
    """A hook that runs a command."""
    parts = [part for word in words for part in split(word)]
    script = next((part for part in parts if part.endswith(DRAIN_SCRIPT)), None)
    if script is not None:
        return Hook(HookKind.DRAIN, by_script=True, script=script)
    if parts and program(parts[0]) == "cacheaware-sidecar" and "drain" in parts:
        return Hook(HookKind.DRAIN, by_script=True)
    seconds = slept(parts)
    return Hook(HookKind.OTHER if seconds is None else HookKind.SLEEP, seconds)


def slept(parts: list[str]) -> float | None:
    """Seconds of a command that only sleeps, in a shell or not."""
    found = SLEEP.fullmatch(" ".join(parts))
    return float(found[1]) * UNITS[found[2]] if found else None
