"""What a container does before SIGTERM: its preStop hook, and how long that may take."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cacheaware.workload.engine import split

DRAIN_PATH = "/drain/wait"
DRAIN_SCRIPT = "/wait.py"


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


def hook_of(container: Any) -> Hook:
    """The preStop hook of a container."""
    hook = (container.get("lifecycle") or {}).get("preStop") or {}
    if not hook:
        return Hook(HookKind.NONE, 0.0)
    if (sleep := (hook.get("sleep") or {}).get("seconds")) is not None:
        return Hook(HookKind.SLEEP, float(sleep))
    if str((hook.get("httpGet") or {}).get("path", "")).startswith(DRAIN_PATH):
        return Hook(HookKind.DRAIN)
    words = [str(word) for word in (hook.get("exec") or {}).get("command") or ()]
    if any(word.endswith(DRAIN_SCRIPT) for word in words):
        return Hook(HookKind.DRAIN, by_script=True)
    seconds = slept(words)
    return Hook(HookKind.OTHER if seconds is None else HookKind.SLEEP, seconds)


def slept(words: list[str]) -> float | None:
    """Seconds of a command that only sleeps, in a shell or not."""
    parts = [part for word in words for part in split(word)]
    line = " ".join(parts)
    found = re.fullmatch(r"(?:\S*sh -c )?(?:\S*/)?sleep (\d+(?:\.\d+)?)s?;?", line)
    return float(found[1]) if found else None
