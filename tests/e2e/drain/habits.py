"""What is put under load: mock engines that end as real ones do, with the system or without it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml
from tests.e2e.workload import Fleet, documents, shaped

ASKS_TO_LEAVE = "--close-while"
ENGINE = (
    # Streams of about a second, many at once, at little cost for the machine.
    *("--time-scale", "0.4", "--stream-interval", "8", "--max-num-seqs", "128"),
    *("--cold-start", "3", "--faults"),
)


class Habit(StrEnum):
    """What a real engine does at SIGTERM."""

    ABORT = "abort"
    FINISH = "finish"
    CLOSE = "close"
    NEVER = "never"

    @property
    def engines(self) -> str:
        """Who has it."""
        return {
            Habit.ABORT: "vLLM",
            Habit.FINISH: "vLLM with --shutdown-timeout",
            Habit.CLOSE: "uvicorn, transformers serve",
            Habit.NEVER: "SGLang, llama.cpp",
        }[self]


@dataclass(frozen=True)
class Setup:
    """A fleet to put under load.

    Attributes:
        system: with sidecar, hook and operator; else a plain Deployment with Kubernetes' defaults.
        habit: of the engines.
        closes: the engine asks clients to leave while the pod is on its way out (the middleware).
        engine: more arguments of the engines.
        change: changes the spec of the pod template further.
        pods: as many as a fleet has that shrinks to one, or is replaced.
        surge_streams: at once, more than one pod less carries.
        shrink_s: the longest that shrinking to one pod may take.
        rollout_s: the longest that replacing all pods may take.
    """

    system: bool
    habit: Habit = Habit.ABORT
    closes: bool = True
    engine: tuple[str, ...] = ()
    change: Callable[[dict[str, Any]], None] | None = None
    pods: int = 4
    surge_streams: int = 130
    shrink_s: float = 180
    rollout_s: float = 240

    @property
    def name(self) -> str:
        """For files."""
        return f"{self.habit}-{'with' if self.system else 'without'}"

    def start(self, fleet: Fleet, replicas: int) -> None:
        """Apply the engines and wait until all are Ready."""
        self.apply(fleet, replicas)
        fleet.wait_ready(replicas, within=120)

    def apply(self, fleet: Fleet, replicas: int) -> None:
        """Apply the engines."""
        engine = (*ENGINE, "--sigterm", self.habit.value, *self.engine)
        objects = [
            shaped(document, replicas=replicas, engine=engine, sidecar=self.system)
            for document in documents("kind/mock-engine.yaml")
        ]
        fleet.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(map(self._shaped, objects)))

    def _shaped(self, document: dict[str, Any]) -> dict[str, Any]:
        if document["kind"] != "Deployment":
            return document
        spec = document["spec"]["template"]["spec"]
        if not self.system:
            del spec["terminationGracePeriodSeconds"]
        if not (self.system and self.closes):
            (engine,) = spec["containers"]
            engine["args"] = [a for a in engine["args"] if not a.startswith(ASKS_TO_LEAVE)]
        if self.change:
            self.change(spec)
        return document
