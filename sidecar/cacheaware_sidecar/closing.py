"""The file `closing` in the shared folder: it is there while the pod should get no more requests.

Whoever answers requests in the engine's container may look for it and answer
`Connection: close`, so that clients that keep their connections leave: `connection_close.py`.
"""

from contextlib import suppress
from pathlib import Path

from cacheaware_sidecar.phase import Phase

FILE = "closing"
CLOSING = frozenset({Phase.CORDONED, Phase.DRAINING, Phase.DRAINED})


def show(folder: Path, phase: Phase) -> None:
    """Put the file there, or take it away; a folder that can't be written changes nothing."""
    with suppress(OSError):
        if phase in CLOSING:
            (folder / FILE).touch()
        else:
            (folder / FILE).unlink(missing_ok=True)
