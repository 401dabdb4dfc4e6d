"""The real vLLM put under load: with the system, or as a plain Deployment of it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.e2e.drain.habits import Habit
from tests.e2e.drain.outcome import FILE
from tests.e2e.workload import Fleet, named
from tests.real_engine.install import Engine

TEMPLATE = Path(__file__).parents[2] / "real_engine" / "deployment.yaml"
REAL_FILE = FILE.with_name("drain-vllm.jsonl")
SHUTDOWN_S = 20
LOADS_WITHIN_S = 600.0
"""Several engines that load at once, on two cores."""


def objects(engine: Engine) -> list[dict[str, Any]]:
    """The Deployment, the Service and the scaler, with this host's folders."""
    text = TEMPLATE.read_text()
    for key, value in (("VENV", engine.venv), ("PYTHON", engine.python), ("MODELS", engine.models)):
        text = re.sub(rf"\b{key}\b", str(value), text)
    return [document for document in yaml.safe_load_all(text) if document]


@dataclass(frozen=True)
class RealSetup:
    """A fleet of the real engine; what a scenario asks of `habits.Setup`."""

    engine: Engine
    system: bool
    habit: Habit = Habit.ABORT
    pods: int = 2
    surge_streams: int = 16
    shrink_s: float = 900
    """No pod is given up that has served for less time than it took to load."""
    rollout_s: float = 900

    @property
    def name(self) -> str:
        """For files."""
        return f"vllm-{self.habit}-{'with' if self.system else 'without'}"

    def start(self, fleet: Fleet, replicas: int) -> None:
        """Apply the engines and wait until all are Ready."""
        documents = [doc for doc in objects(self.engine) if doc["kind"] != "CacheAwareScaler"]
        deployment = named(documents, "Deployment")
        deployment["spec"]["replicas"] = replicas
        self._shape(deployment["spec"]["template"]["spec"])
        fleet.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(documents))
        fleet.wait_ready(replicas, within=LOADS_WITHIN_S)

    def _shape(self, spec: dict[str, Any]) -> None:
        (engine,) = spec["containers"]
        if self.habit is Habit.FINISH:
            engine["command"].append(f"--shutdown-timeout={SHUTDOWN_S}")
        if not self.system:
            del spec["initContainers"], engine["lifecycle"], spec["terminationGracePeriodSeconds"]
            engine["command"] = [part for part in engine["command"] if "middleware" not in part]
            return
        (sidecar,) = spec["initContainers"]
        if self.habit is Habit.FINISH:
            sidecar["env"].append(
                {"name": "CACHEAWARE_ENGINE_SHUTDOWN_SECONDS", "value": str(SHUTDOWN_S)}
            )
