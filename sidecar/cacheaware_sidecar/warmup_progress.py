"""What is known of the pod's start and warm-up, and how that outlives the sidecar.

The file `warmup.json` in the shared folder belongs to one engine of this pod on one boot of the
node; what it says of another is not taken. What can't be read is unknown.
"""

import json
import logging
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from cacheaware_sidecar.lifecycle import Lifecycle, Verdict
from cacheaware_sidecar.phase import Phase
from cacheaware_sidecar.small_files import read_small, write_atomically
from cacheaware_sidecar.state import Latency, ShapeState, StartState, WarmupState
from cacheaware_sidecar.state_json import StateError, histogram_from_json, histogram_to_json
from cacheaware_sidecar.warmup import Result

FILE: Final = "warmup.json"
SCHEMA: Final = 1
LATENCIES: Final = ("ttft_s", "tpot_s", "e2e_s")
log = logging.getLogger(__name__)


class WarmupProgress:
    """Where this engine stands on its way to serving, and how it got there."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Nothing is known, or another engine is there."""
        self.engine: int | None = None
        """The engine that all of this is about."""
        self.step = self.steps = 0
        self.duration_s: float | None = None
        self.result: Result | None = None
        self.start = StartState()
        self._healthy_at: float | None = None

    @property
    def problems(self) -> tuple[str, ...]:
        """Of the warm-up that has ended."""
        return self.result.problems if self.result else ()

    @property
    def answered(self) -> int:
        """Requests of the warm-up that the engine has answered."""
        return self.result.requests if self.result else 0

    def ended(self, engine: int, result: Result, seconds: float | None) -> None:
        """Takes the end of a warm-up, and says it in one line."""
        self.result, self.duration_s = result, seconds
        log.info("%s", _line(engine, result, seconds))

    def phase_changed(self, before: Lifecycle, after: Lifecycle, now: float) -> None:
        """Measures the way from the sidecar's start, or the loss of an engine, to serving."""
        if after.phase is Phase.LOADING or self.engine not in {None, after.engine}:
            self._forget()
        if after.phase is Phase.WARMING and self._healthy_at is None:
            self.engine, self._healthy_at = after.engine, now
            loading = now - before.since if before.phase is Phase.LOADING else None
            self.start = StartState(loading_s=loading)
        if before.phase is Phase.WARMING and after.phase is Phase.SERVING:
            began = self._healthy_at
            warming = None if began is None else now - began
            self.start = replace(self.start, warming_s=warming)

    def start_state(self) -> StartState:
        """How long the start took."""
        loading, warming = self.start.loading_s, self.start.warming_s
        return StartState(loading_s=_rounded(loading), warming_s=_rounded(warming))

    def state(self, verdict: Verdict | None) -> WarmupState:
        """What `GET /v1/state` tells."""
        result = self.result or Result(verdict=Verdict.OFF)
        asked = self.result is not None and self.duration_s is not None
        return WarmupState(
            step=self.step,
            steps=self.steps,
            verdict=None if verdict is None else verdict.value,
            duration_s=_rounded(self.duration_s),
            requests=result.requests if asked else None,
            prompt_tokens=result.prompt_tokens if asked else None,
            generation_tokens=result.generation_tokens if asked else None,
            shapes=result.shapes,
        )

    def save(self, folder: Path, boot: str, zero: Latency) -> None:
        """Writes it.

        Raises:
            OSError: the folder can't be written.
        """
        record = {
            "schema": SCHEMA,
            "boot": boot,
            "engine": self.engine,
            "healthy_at": self._healthy_at,
            "step": self.step,
            "steps": self.steps,
            "duration_s": self.duration_s,
            "start": asdict(self.start),
            "result": None if self.result is None else asdict(self.result),
            "zero": {
                name: None if histogram is None else histogram_to_json(histogram)
                for name in LATENCIES
                for histogram in [getattr(zero, name)]
            },
        }
        write_atomically(folder / FILE, json.dumps(record) + "\n")


def restore(folder: Path, boot: str, engine: int) -> tuple[WarmupProgress, Latency | None]:
    """What was known of this engine, and where its histograms began; nothing if there is none."""
    try:
        record = json.loads(read_small(folder / FILE))
        if record["schema"] != SCHEMA or not boot or record["boot"] != boot:
            return WarmupProgress(), None
        if record["engine"] != engine:
            return WarmupProgress(), None
        return _parse(record)
    except (OSError, ValueError, TypeError, KeyError, RecursionError, StateError):
        return WarmupProgress(), None


def _parse(record: Any) -> tuple[WarmupProgress, Latency | None]:
    progress = WarmupProgress()
    progress.engine = int(record["engine"])
    progress._healthy_at = float(record["healthy_at"])  # noqa: SLF001 - of this very file
    start, result = record["start"], record["result"]
    loading, warming = _number(start["loading_s"]), _number(start["warming_s"])
    progress.start = StartState(loading_s=loading, warming_s=warming)
    if result is None:
        return progress, None
    progress.step, progress.steps = int(record["step"]), int(record["steps"])
    progress.duration_s = _number(record["duration_s"])
    progress.result = Result(
        verdict=Verdict(result["verdict"]),
        problems=tuple(map(str, result["problems"])),
        shapes=tuple(ShapeState(**each) for each in result["shapes"]),
        requests=int(result["requests"]),
        prompt_tokens=int(result["prompt_tokens"]),
        generation_tokens=int(result["generation_tokens"]),
    )
    zero = {name: histogram_from_json(record["zero"][name]) for name in LATENCIES}
    return progress, Latency(**zero)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _line(engine: int, result: Result, seconds: float | None) -> str:
    """`warm-up of engine 1: Warm after 9.1 s, 34 requests, 8,200 + 512 tokens; long 2.1 -> 0.3`."""
    line = f"warm-up of engine {engine}: {result.verdict} after {seconds or 0:.1f} s"
    if not result.requests:
        return line
    tokens = f"{result.prompt_tokens:,} + {result.generation_tokens:,} tokens"
    shapes = (
        f"{each.name} {each.first_s:.3g} -> {each.last_s:.3g}"
        for each in result.shapes
        if each.first_s is not None and each.last_s is not None
    )
    return f"{line}, {result.requests} requests, {tokens}; seconds: {', '.join(shapes)}"
