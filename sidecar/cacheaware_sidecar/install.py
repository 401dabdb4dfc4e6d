"""Puts the engine's preStop hook into the shared folder: wait.py and what it needs to know."""

import json
from pathlib import Path

from cacheaware_sidecar import wait
from cacheaware_sidecar.engines.detect import AUTO, DIALECTS
from cacheaware_sidecar.engines.signal import Signal
from cacheaware_sidecar.engines.vllm import VLLM
from cacheaware_sidecar.settings import Settings
from cacheaware_sidecar.store import write_atomically

SCRIPT = "wait.py"
SETTINGS = "wait.json"


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
        "url": settings.engine_url,
        "path": settings.metrics_path,
        "drain_s": float(settings.drain_seconds),
        "floor_s": float(settings.drain_floor_seconds),
        "ca_file": settings.ca_file,
        "api_key_file": settings.api_key_file,
        "counts": counts_of(settings.engine_type),
    }


def counts_of(engine: str) -> list[list[list[str]]]:
    """The names of what runs and of what waits, for one engine or for all."""
    chosen = [each for each in DIALECTS if engine in {AUTO, each.engine}]
    chosen = chosen or [VLLM]  # what imitates vLLM has its names
    return [[_names(each.running), _names(each.waiting)] for each in chosen]


def _names(signals: tuple[Signal, ...]) -> list[str]:
    """Names as the script reads them, with the one label that a series must have."""
    return [
        name.decode() + "".join(f'{{{label}="{value}"}}' for label, value in signal.where.items())
        for signal in signals
        for name in signal.names
    ]
