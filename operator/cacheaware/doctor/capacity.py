"""GPUs that an update needs beside those that its pods hold."""

from collections.abc import Iterator
from dataclasses import dataclass

from cacheaware.doctor.findings import Finding
from cacheaware.doctor.rollout import Rolling, downtime, rolling_of
from cacheaware.doctor.subject import Subject
from cacheaware.workload.engine import accelerators
from cacheaware.workload.template import LWS, WORKER, below


@dataclass(frozen=True, slots=True)
class Surge:
    """What a rolling update asks for at its peak."""

    replicas: int
    surge: int
    unavailable: int
    gpus_each: int

    @property
    def peak(self) -> int:
        """GPUs when all new pods are there and no old one has gone; case 042: (1 + 1) x 2 = 4."""
        return (self.replicas + self.surge) * self.gpus_each


def surge_of(subject: Subject, rolling: Rolling) -> Surge:
    """The surge of a workload; a manifest without replicas has one (Kubernetes)."""
    replicas = 1 if subject.replicas is None else subject.replicas
    return Surge(replicas, *rolling.at(replicas), gpus_each(subject))


def gpus_each(subject: Subject) -> int:
    """GPUs of one replica: of one pod, or of a whole group."""
    own = max(subject.gpus.values(), default=0)
    if subject.workload.kind != LWS:
        return own
    pod = below(subject.workload.group, (WORKER, "spec")) or {}
    worker = [sum(accelerators(one).values()) for one in pod.get("containers") or ()]
    return own + (subject.workload.group_size - 1) * sum(worker)


def capacity(subject: Subject) -> Iterator[Finding]:
    """Whether a new pod finds GPUs while no old one may go."""
    rolling = rolling_of(subject)
    if rolling is None or rolling.both_zero:
        return
    surge = surge_of(subject, rolling)
    if surge.gpus_each and surge.replicas and surge.surge and not surge.unavailable:
        yield from deadlock(subject, rolling, surge)


def deadlock(subject: Subject, rolling: Rolling, surge: Surge) -> Iterator[Finding]:
    """An update that may only add a pod first."""
    needs = (
        f"an update needs ({surge.replicas} + {surge.surge}) x {surge.gpus_each} = {surge.peak}"
        f" GPUs at its peak, since maxUnavailable {rolling.unavailable} of {surge.replicas} is 0"
    )
    fix = (
        f"set {rolling.path}.maxSurge to 0 and maxUnavailable to 1 ({fewer(subject, surge)}), or"
        f" keep {surge.gpus_each} GPUs spare"
    )
    nodes = subject.facts.nodes
    if nodes is None:
        yield subject.info(
            "surge-gpus-unknown", f"{needs}; whether they exist is not known",
            "give --node-gpus, or ask the cluster",
        )  # fmt: skip
        return
    exist, free = sum(one.allocatable for one in nodes), sum(one.free for one in nodes)
    if has_room(subject, surge, exist):
        return
    message = f"{needs}; {exist} exist, {free} are free: the new pod waits for a GPU that the old"
    message += " pod may not release"
    if subject.facts.autoscaler.present:
        yield subject.warning(
            "surge-needs-node", f"{message}, unless the cluster-autoscaler adds a node", fix
        )
    else:
        yield subject.error("surge-without-gpus", message, fix)


def has_room(subject: Subject, surge: Surge, exist: int) -> bool:
    """Whether one more pod fits; a group of several pods is counted over all nodes."""
    if exist < surge.peak - (surge.surge - 1) * surge.gpus_each:
        return False
    if subject.workload.kind == LWS:
        free = sum(one.free for one in subject.facts.nodes or ())
        places = free // surge.gpus_each
    else:
        places = sum(one.free // surge.gpus_each for one in subject.facts.nodes or ())
    running = subject.facts.running_pods
    missing = 0 if running is None else max(0, surge.replicas - running)
    return places > missing


def fewer(subject: Subject, surge: Surge) -> str:
    """What the other way costs."""
    if surge.replicas == 1:
        return f"nothing serves{downtime(subject)}"
    return f"{surge.replicas - 1} of {surge.replicas} serve meanwhile"
