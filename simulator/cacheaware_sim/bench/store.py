"""Stored results: one JSON file a run, named by all that decides what comes out of it."""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cacheaware_sim.bench.matrix import BOUND, Case
from cacheaware_sim.bench.sources import sources_hash
from cacheaware_sim.bench.tuning import settings_of
from cacheaware_sim.simulate import sha256_of

FOLDER = Path("build/bench")
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of results.

    Args:
        folder: It is made when the first result comes.
        data: Where the traces are.
    """

    folder: Path
    data: Path

    def path(self, case: Case) -> Path:
        """The file of a run, whether it is there or not.

        Raises:
            SpecError: The run can't be.
            OSError: Its trace can't be read.
        """
        return self.folder / f"{key_of(case, self.data)}.json"

    def read(self, case: Case) -> dict[str, Any] | None:
        """What a run has brought; None: it was not run, or by other code.

        A file that is no JSON is none of ours: it is as if it were not there.
        """
        try:
            stored = json.loads(self.path(case).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        result = stored.get("result") if isinstance(stored, dict) else None
        return result if isinstance(result, dict) else None

    def write(self, case: Case, result: dict[str, Any]) -> None:
        """Store a result at once or not at all."""
        path = self.path(case)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"case": case.label, "result": result}, indent=1, allow_nan=False)
        partial = path.with_suffix(f".{os.getpid()}.tmp")
        partial.write_text(text + "\n")
        partial.replace(path)

    def missing(self, cases: Iterable[Case]) -> list[Case]:
        """The runs without a result, in order."""
        return [case for case in cases if self.read(case) is None]


def key_of(case: Case, data: Path) -> str:
    """A name for all that decides a run: options, settings, the trace's bytes, the code.

    Where a trace lies does not matter.
    """
    spec = case.spec(data)
    options = asdict(spec)
    trace = options.pop("trace")
    decided = {
        "format": FORMAT,
        "bound": case.policy == BOUND,
        "options": options,
        "settings": repr(settings_of(case.policy, case.variant)),
        "trace": str(trace) if spec.generator else _sha256(trace),
        "code": sources_hash(case.policy),
    }
    return hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()[:32]


@cache
def _sha256(trace: Path) -> str:
    return sha256_of(trace)
