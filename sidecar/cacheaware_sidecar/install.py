"""Puts what runs in the engine's container into the shared folder.

That is the preStop hook, wait.py, with what it needs to know, and the middleware that asks clients
to leave.
"""

import json
from pathlib import Path

from cacheaware_sidecar import connection_close, drain, wait
from cacheaware_sidecar.engines.detect import AUTO, DIALECTS
from cacheaware_sidecar.engines.dialect import Dialect
from cacheaware_sidecar.engines.signal import Signal
from cacheaware_sidecar.engines.vllm import VLLM
from cacheaware_sidecar.settings import Settings
from cacheaware_sidecar.small_files import write_atomically

SCRIPT = "wait.py"
SETTINGS = "wait.json"
MIDDLEWARE = "connection_close.py"
MOVING = ("requests", "prompt_tokens", "generation_tokens")
"""Counters that stand still in an empty engine."""


def install_hook(settings: Settings) -> None:
    """Writes both files, each whole or not at all, unless they are there.

    A sidecar that starts again writes nothing, so that a full disk doesn't keep it from serving.

    Raises:
        OSError: the folder can't be made or written.
    """
    folder = Path(settings.shared_dir)
    folder.mkdir(parents=True, exist_ok=True)
    put(folder / SETTINGS, json.dumps(hook_settings(settings), indent=1) + "\n", 0o644)
    put(folder / SCRIPT, Path(wait.__file__).read_text(encoding="utf-8"), 0o755)
    put(folder / MIDDLEWARE, Path(connection_close.__file__).read_text(encoding="utf-8"), 0o644)


def put(path: Path, text: str, mode: int) -> None:
    """Writes a file unless it holds this text already.

    Raises:
        OSError: the folder can't be written.
    """
    try:
        there = path.read_bytes()
    except OSError:
        there = None
    if there != text.encode():
        write_atomically(path, text, mode)


def hook_settings(settings: Settings) -> dict[str, object]:
    """What the script must know where the sidecar is dead."""
    return {
        "urls": list(settings.engine_urls),
        "path": settings.metrics_path,
        "drain_s": float(settings.drain_seconds),
        "floor_s": float(settings.drain_floor_seconds),
        "quiet_s": quiet_seconds(settings),
        "ca_file": settings.ca_file,
        "api_key_file": settings.api_key_file,
        "counts": counts_of(settings.engine_type),
        "counters": counters_of(settings.engine_type),
    }


def quiet_seconds(settings: Settings) -> float:
    """How long nothing may run or wait; pods that hand KV over wait until it is let go."""
    handed_over = settings.role != drain.ALONE
    return float(settings.kv_transfer_timeout_seconds) if handed_over else drain.QUIET_S


def counts_of(engine: str) -> list[list[list[str]]]:
    """The names of what runs and of what waits, for one engine or for all."""
    return [[_names(each.running), _names(each.waiting)] for each in chosen(engine)]


def counters_of(engine: str) -> list[str]:
    """The names of all counters of requests and tokens, for one engine or for all."""
    signals = (each.counters.get(field, ()) for each in chosen(engine) for field in MOVING)
    return sorted({name for each in signals for name in _names(each)})


def chosen(engine: str) -> list[Dialect]:
    """Whose names to look for."""
    found = [each for each in DIALECTS if engine in {AUTO, each.engine}]
    return found or [VLLM]  # what imitates vLLM has its names


def _names(signals: tuple[Signal, ...]) -> list[str]:
    """Names as the script reads them, with the one label that a series must have."""
    return [
        name.decode() + "".join(f'{{{label}="{value}"}}' for label, value in signal.where.items())
        for signal in signals
        for name in signal.names
    ]
