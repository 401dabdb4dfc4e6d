"""The part of a trace that is played on the cluster and in the simulator: one file for both."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cacheaware_sim.load_trace import LoadTrace
from cacheaware_sim.traces.azure import COLUMNS
from cacheaware_sim.traces.trace import TraceRequest

CONVERSATIONS = Path("data/traces/azure2023/AzureLLMInferenceTrace_conv.csv")
"""Below ../shared."""
FROM_S, TO_S = 1680.0, 2280.0
SCALE = 0.6
"""Prompts get longer for three minutes, then shorter: a fleet of two grows to six and gives up one
or two. Chosen in the simulator because draws of a run (routing, cold starts, seconds of delay) move
the mean of replicas by 6 to 7 % there; in half of the other parts by 12 to 22 %, as one pod more or
less at the highest minute stays for the 300 s of the window, and nothing could be held to 15 %.
"""
SPAN_S = TO_S - FROM_S
START = datetime(2023, 11, 16, tzinfo=UTC)


def excerpt(source: Path, target: Path, scale: float = SCALE) -> int:
    """Write the ten minutes as a trace of Azure's format; how many requests they have.

    Scaled here, so that the file is small enough for a ConfigMap (1 MiB).
    """
    part = LoadTrace(path=source, from_s=FROM_S, to_s=TO_S, scale=scale)
    requests = list(part.requests())
    target.write_text("".join(lines(requests)), encoding="utf-8")
    return len(requests)


def lines(requests: Iterable[TraceRequest]) -> Iterable[str]:
    """A CSV of Azure's columns."""
    yield f"{','.join(COLUMNS)}\n"
    for request in requests:
        at = START + timedelta(seconds=request.at)
        yield f"{at:%Y-%m-%d %H:%M:%S.%f},{request.prompt_tokens},{request.output_tokens}\n"
