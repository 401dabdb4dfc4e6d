"""LeaderWorkerSet: groups of pods of which only the leader serves."""

from collections.abc import Iterator
from typing import Any

from cacheaware.doctor.findings import Finding
from cacheaware.doctor.sidecar import is_ours
from cacheaware.doctor.subject import Subject
from cacheaware.workload.template import LEADER, LWS, WORKER

RECREATE = "RecreateGroupOnPodRestart"


def leaderworkerset(subject: Subject) -> Iterator[Finding]:
    """What is special where workers serve nothing themselves."""
    if subject.workload.kind != LWS:
        return
    group, size = subject.workload.group, subject.workload.group_size
    yield from leader_ready(subject, size)
    yield from recreated(subject, group)
    if size > 1 and carries(group.get(WORKER)):
        yield subject.error(
            "sidecar-in-worker",
            "the workers carry the sidecar: they have no engine to ask, so they are never Ready",
            "put it into leaderTemplate only"
            + ("" if group.get(LEADER) else ", which has to be a template of its own"),
        )


def leader_ready(subject: Subject, size: int) -> Iterator[Finding]:
    """LeaderReady creates the workers when the leader is Ready, which needs the workers."""
    policy = subject.spec.get("startupPolicy", "LeaderCreated")
    gated = subject.sidecar is not None
    if policy == "LeaderReady" and size > 1 and gated:
        yield subject.error(
            "leader-ready-deadlock",
            "startupPolicy LeaderReady creates the workers when the leader is Ready, and the leader"
            " is Ready when its engine, which needs the workers, is warm: neither ever comes",
            "set startupPolicy to LeaderCreated",
        )


def recreated(subject: Subject, group: Any) -> Iterator[Finding]:
    """A restarted container makes the whole group anew; the sidecar's must not be a reason."""
    policy, sidecar = group.get("restartPolicy", RECREATE), subject.sidecar
    if sidecar is not None and policy == RECREATE and "livenessProbe" in sidecar.container:
        yield subject.error(
            "sidecar-liveness-recreates-group",
            f"under {RECREATE} a restart of {sidecar.name} by its livenessProbe ends the whole"
            " group with all its requests",
            f"remove the livenessProbe of {sidecar.name}",
        )


def carries(template: Any) -> bool:
    """Whether a pod template carries the sidecar."""
    spec = (template or {}).get("spec") or {}
    return any(map(is_ours, [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]))
