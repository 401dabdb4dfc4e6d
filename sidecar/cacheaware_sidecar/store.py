"""The phase on disk: it lives in the pod's emptyDir and survives the sidecar.

Times on disk are of the node's monotonic clock, which all processes share; the boot id tells
whether it is still the same clock. What can't be read is not trusted: the pod starts anew.
"""

import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from cacheaware_sidecar.lifecycle import Drain, Lifecycle, Verdict
from cacheaware_sidecar.phase import Phase

SCHEMA = 1
FILE = "phase.json"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LARGEST = 65536


def boot_id() -> str:
    """Identity of the node's running kernel; empty where it can't be told."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Writes a file so that a reader sees the old text or the new one, never a part.

    Raises:
        OSError: the folder can't be written.
    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(fresh, flags, mode), "w", encoding="utf-8") as file:  # noqa: PTH123 - Path has no O_EXCL
            os.fchmod(file.fileno(), mode)
            file.write(text)
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise


def read_small(path: Path, largest: int = LARGEST) -> bytes:
    """The bytes of a file of limited size.

    Raises:
        OSError: it is missing, no file, or larger.
    """
    with path.open("rb") as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise OSError(f"{path} is larger than {largest} bytes")
    return data


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
        record = json.loads(read_small(folder / FILE))
        if record["schema"] != SCHEMA or not boot or record["boot"] != boot:
            return None
        state = _parse(record["state"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    if state.since > now or (state.drain and state.drain.began > now):
        return None
    return _resumed(state, now)


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
        cordoned_by=None if raw["cordoned_by"] is None else str(raw["cordoned_by"]),
    )


def _parse_drain(raw: dict[str, Any]) -> Drain:
    return Drain(
        began=float(raw["began"]),
        deadline=float(raw["deadline"]),
        outlived=float(raw["outlived"]),
        before=Phase(raw["before"]),
        cut=raw["cut"] is True,
    )


def _resumed(state: Lifecycle, now: float) -> Lifecycle:
    """A warm-up of which only a part was done begins again; rows of refusals count anew."""
    if state.phase is not Phase.WARMING:
        return state
    return replace(state, phase=Phase.LOADING, since=now, verdict=None)
