"""What the rules look at: a workload, its engine, and what is known besides."""

from dataclasses import dataclass
from typing import Any

from cacheaware.doctor.facts import Facts
from cacheaware.doctor.findings import Finding, Severity
from cacheaware.doctor.sidecar import Sidecar, sidecar_of
from cacheaware.doctor.sigterm import Habit, habit_of
from cacheaware.workload.engine import Engine, accelerators
from cacheaware.workload.hooks import Hook, hook_of
from cacheaware.workload.template import Workload


@dataclass(frozen=True, slots=True)
class Subject:
    """One workload under examination."""

    workload: Workload
    engine: Engine
    facts: Facts

    @property
    def grace(self) -> int:
        """Seconds from the deletion of a pod until it is killed."""
        return self.workload.grace_s

    @property
    def hook(self) -> Hook:
        """The engine's preStop hook."""
        return hook_of(self.engine.container)

    @property
    def habit(self) -> Habit:
        """What the engine does at SIGTERM."""
        return habit_of(self.engine)

    @property
    def sidecar(self) -> Sidecar | None:
        """Our sidecar, wherever it stands."""
        return sidecar_of(self.workload)

    @property
    def replicas(self) -> int | None:
        """As the cluster has it, else as the manifest asks for."""
        live = self.facts.replicas
        return self.workload.replicas if live is None else live

    @property
    def spec(self) -> Any:
        """The workload's own spec, with its strategy of updates."""
        return self.workload.body.get("spec") or {}

    @property
    def neighbours(self) -> list[Any]:
        """The containers that run beside the engine and get SIGTERM together with it."""
        ours = self.sidecar
        own = [one for one in self.workload.containers if one is not self.engine.container]
        return [
            one for one in [*own, *self.facts.injected] if ours is None or one is not ours.container
        ]

    @property
    def gpus(self) -> dict[str, int]:
        """Accelerators of one pod, by resource name."""
        found: dict[str, int] = {}
        for one in [*self.workload.containers, *self.workload.sidecars]:
            for name, count in accelerators(one).items():
                found[name] = found.get(name, 0) + count
        return found

    def error(self, id_: str, message: str, fix: str) -> Finding:
        """Requests are lost, or the pod never serves."""
        return self.finding(Severity.ERROR, id_, message, fix)

    def warning(self, id_: str, message: str, fix: str) -> Finding:
        """It holds on a good day."""
        return self.finding(Severity.WARNING, id_, message, fix)

    def info(self, id_: str, message: str, fix: str = "") -> Finding:
        """Good to know, or not known."""
        return self.finding(Severity.INFO, id_, message, fix)

    def finding(self, severity: Severity, id_: str, message: str, fix: str) -> Finding:
        """A finding about this workload."""
        return Finding(id_, severity, str(self.workload), message, fix)
