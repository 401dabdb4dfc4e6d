"""The phase on disk: it lives in the pod's emptyDir and survives the sidecar.

Times on disk are of the node's monotonic clock, which all processes share; the boot id tells
whether it is still the same clock. What can't be read is not trusted: the pod starts anew. Only
which tokens are spent outlives the boot: they expire by the wall clock.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from cacheaware_sidecar.lifecycle import (
    LONGEST_LEASE_S,
    Cordon,
    Drain,
    Lifecycle,
    UsedToken,
    Verdict,
)
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.small_files import read_small, write_atomically

SCHEMA = 1
FILE = "phase.json"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Identity of the node's running kernel; empty where it can't be told."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def save(folder: Path, state: Lifecycle, boot: str) -> None:
    """Writes the state.

    Raises:
        OSError: the folder can't be written.
    """
    record = {"schema": SCHEMA, "boot": boot, "state": asdict(state)}
    write_atomically(folder / FILE, json.dumps(record) + "\n")


def restore(folder: Path, boot: str, now: float) -> Lifecycle | None:
    """The state as it was saved on this boot of the node; None if there is none to trust."""
    try:
        record = _record(folder)
        if record["schema"] != SCHEMA or not boot or record["boot"] != boot:
            return None
        state = _parse(record["state"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    if state.since > now or (state.drain and state.drain.began > now):
        return None
    if state.cordon and not state.cordon.until <= now + LONGEST_LEASE_S:
        return None
    return _resumed(state, now)


def spent_tokens(folder: Path) -> tuple[UsedToken, ...]:
    """Tokens that a cordon before the restart has used, on whatever boot it was."""
    try:
        state = _record(folder)["state"]
        held = _parse_cordon(state.get("cordon"))
        return (*_parse_tokens(state.get("spent", ())), *(held.tokens if held else ()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()


def _record(folder: Path) -> Any:
    return json.loads(read_small(folder / FILE))


def _parse(raw: dict[str, Any]) -> Lifecycle:
    drain = raw["drain"]
    return Lifecycle(
        phase=Phase(raw["phase"]),
        since=float(raw["since"]),
        engine=int(raw["engine"]),
        starts=tuple(float(start) for start in raw["starts"]),
        gone=raw["gone"] is True,
        verdict=None if raw["verdict"] is None else Verdict(raw["verdict"]),
        drain=None if drain is None else _parse_drain(drain),
        cordon=_parse_cordon(raw.get("cordon")),
        spent=_parse_tokens(raw.get("spent", ())),
    )


def _parse_cordon(raw: dict[str, Any] | None) -> Cordon | None:
    if raw is None:
        return None
    return Cordon(
        by=str(raw["by"]),
        began=float(raw["began"]),
        until=float(raw["until"]),
        tokens=_parse_tokens(raw["tokens"]),
    )


def _parse_tokens(raw: Iterable[dict[str, Any]]) -> tuple[UsedToken, ...]:
    return tuple(UsedToken(str(each["id"]), float(each["expires"])) for each in raw)


def _parse_drain(raw: dict[str, Any]) -> Drain:
    return Drain(
        began=float(raw["began"]),
        deadline=float(raw["deadline"]),
        outlived=float(raw["outlived"]),
        before=Phase(raw["before"]),
        cut=raw["cut"] is True,
        limit=None if raw.get("limit") is None else float(raw["limit"]),
    )


def _resumed(state: Lifecycle, now: float) -> Lifecycle:
    """A warm-up of which only a part was done begins again; rows of refusals count anew."""
    if state.phase is not Phase.WARMING:
        return state
    return replace(state, phase=Phase.LOADING, since=now, verdict=None)
