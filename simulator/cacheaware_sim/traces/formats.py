"""Opens a trace of any format; what a file is tells its content, not its name."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from cacheaware_sim.traces import azure, servegen
from cacheaware_sim.traces.azure import read_azure
from cacheaware_sim.traces.fields import BadValueError
from cacheaware_sim.traces.lines import lines
from cacheaware_sim.traces.mooncake import read_mooncake
from cacheaware_sim.traces.request_log import read_request_log
from cacheaware_sim.traces.servegen import read_servegen
from cacheaware_sim.traces.trace import Notes, TraceError, TraceRequest
from cacheaware_sim.traces.wva import read_wva

FORMATS = ("azure", "mooncake", "servegen", "wva", "request-log")
AUTO = "auto"
WHAT_IS_READ = (
    f"a CSV with {','.join(azure.COLUMNS)} (azure) or {','.join(servegen.COLUMNS)} (servegen), "
    "JSON lines with input_length (mooncake) or token counts (request-log), "
    "or YAML with load or profile (wva)"
)
LINES_TO_LOOK_AT = 1000
"""A scenario may begin with comments."""


def open_trace(
    path: str | Path,
    format: str = AUTO,  # noqa: A002 - the option's name
    *,
    seed: int = 0,
    block_size: int = 16,
    notes: Notes | None = None,
) -> Iterator[TraceRequest]:
    """The requests of a file by time, streamed; the first one is read at once.

    `seed` is for what the file leaves open (times inside Mooncake's bins, scenarios), `block_size`
    the engine's, for names of prefix blocks. `notes` is filled while the requests are read.

    Raises:
        ValueError: `format` is none of FORMATS and "auto", or `block_size` can't be made.
        TraceError: One line, now or on iteration.
    """
    path = Path(path)
    if format not in (AUTO, *FORMATS):
        raise ValueError(f"format {format!r}: must be one of {', '.join((AUTO, *FORMATS))}")
    readers: dict[str, Callable[[], Iterator[TraceRequest]]] = {
        "azure": partial(read_azure, path, notes=notes),
        "mooncake": partial(read_mooncake, path, seed=seed, block_size=block_size, notes=notes),
        "servegen": partial(read_servegen, path, notes=notes),
        "wva": partial(read_wva, path, seed=seed),
        "request-log": partial(read_request_log, path, notes=notes),
    }
    requests = readers[detect(path) if format == AUTO else format]()
    return chain([next(requests)], requests)


def detect(path: Path) -> str:
    """The format that the first lines show.

    Raises:
        TraceError: Not readable, empty, or none of the formats.
    """
    first: str | None = None
    number = 0
    for number, line in enumerate(lines(path), 1):
        text = line.strip()
        if not text or text.startswith("#") or text == "---":
            pass
        elif first is None and (found := _by_first_line(path, number, text)):
            return found
        elif line.startswith(("load:", "profile:")):
            return "wva"
        else:
            first = first or text
        if number == LINES_TO_LOOK_AT:
            break
    if number == 0:
        raise TraceError(path, None, f"empty: must be {WHAT_IS_READ}")
    raise TraceError(path, 1, str(BadValueError("content", first or "", WHAT_IS_READ)))


def _by_first_line(path: Path, number: int, text: str) -> str | None:
    if text.startswith("["):
        raise TraceError(path, number, "a JSON array: must be one JSON object per line")
    if text.startswith("{"):
        return _json_kind(text)
    header = {name.strip() for name in text.split(",")}
    if header.issuperset(azure.COLUMNS):
        return "azure"
    if header.issuperset(servegen.COLUMNS):
        return "servegen"
    return None


def _json_kind(text: str) -> str:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return "request-log"
    return "mooncake" if "input_length" in row or "hash_ids" in row else "request-log"
