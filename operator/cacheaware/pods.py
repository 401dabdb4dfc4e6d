"""A pod as the operator keeps it: a small record made at once from the API's large body."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from cacheaware import names

FINISHED = frozenset({"Succeeded", "Failed"})
SCRAPE_PORT = "prometheus.io/port"
SCRAPE_PATH = "prometheus.io/path"
ENGINE_PORT_NAMES = ("metrics", "http", "http-metrics", "api")
DRAIN_HOOK = "/drain/wait"
DRAIN_SCRIPT = "/wait.py"
ON_ITS_WAY = frozenset({"ContainerCreating", "PodInitializing"})
"""Why a container waits when nothing is wrong."""


class PodRecord(Struct, frozen=True, kw_only=True):
    """What rounds need of a pod; times are seconds since the epoch, from the API's clock."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    ip: str | None = None
    node: str | None = None
    ready: bool = False
    ready_since: float | None = None
    was_ready: bool = False
    """It is not Ready, and has been since its containers started."""
    created: float = 0.0
    scheduled_at: float | None = None
    """When it got its node."""
    started_at: float | None = None
    """When the last of its containers started; None while one has not."""
    startup_budget_s: float | None = None
    """What the startup probes of its containers give them; None without such a probe."""
    terminating: bool = False
    deleted_at: float | None = None
    """When its grace period ends; None while it is not being deleted."""
    grace_s: float | None = None
    """How long that period is."""
    pending: bool = False
    """Not all of its containers have started."""
    disrupted: bool = False
    """Kubernetes takes it away: an eviction, a preemption, a node that goes."""
    finished: bool = False
    restarts: int = 0
    stuck: str | None = None
    """Why it can't start, such as `engine: ImagePullBackOff` or `Unschedulable`."""
    sidecar_port: int | None = None
    engine_port: int | None = None
    """Where the engine's page is by the pod's own words: annotation, or a port's usual name."""
    engine_path: str | None = None
    final_drain: bool = False
    deletion_cost: int | None = None
    deletion_cost_by: str | None = None
    """Our mark beside a deletion cost; None: the cost is somebody else's."""


def pod_record(body: Mapping[str, Any]) -> PodRecord:
    """Reduce a Pod object.

    Raises:
        KeyError: it has no name or uid, so it is no Pod.
    """
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    annotations: Mapping[str, str] = meta.get("annotations") or {}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    ready = _since(status, "Ready")
    return PodRecord(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        uid=meta["uid"],
        labels=meta.get("labels") or {},
        ip=status.get("podIP") or None,
        node=spec.get("nodeName"),
        ready=ready is not None,
        ready_since=ready,
        was_ready=_was_ready(spec, status),
        created=seconds(meta.get("creationTimestamp")) or 0.0,
        scheduled_at=_since(status, "PodScheduled"),
        started_at=_started(spec, status),
        startup_budget_s=_startup_budget(spec),
        terminating="deletionTimestamp" in meta,
        deleted_at=seconds(meta.get("deletionTimestamp")),
        grace_s=meta.get("deletionGracePeriodSeconds"),
        pending=status.get("phase") == "Pending",
        disrupted=_since(status, "DisruptionTarget") is not None,
        finished=status.get("phase") in FINISHED,
        restarts=sum(one.get("restartCount", 0) for one in status.get("containerStatuses") or ()),
        stuck=_stuck(status),
        sidecar_port=_sidecar_port(containers),
        engine_port=_engine_port(spec.get("containers") or (), annotations),
        engine_path=annotations.get(SCRAPE_PATH),
        final_drain=any(_drains(one) for one in spec.get("containers") or ()),
        deletion_cost=_integer(annotations.get(names.DELETION_COST)),
        deletion_cost_by=annotations.get(names.DELETION_COST_OWNER),
    )


def seconds(time: str | None) -> float | None:
    """Seconds since the epoch of an API time; None where there is none."""
    return datetime.fromisoformat(time).timestamp() if time else None


def _was_ready(spec: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """A pod that has never been Ready is not so since before its containers started."""
    started, unready = _started(spec, status), _since(status, "Ready", "False")
    return started is not None and unready is not None and unready > started


def _since(status: Mapping[str, Any], kind: str, wanted: str = "True") -> float | None:
    """Since when a condition has been as wanted; None while it is not."""
    for one in status.get("conditions") or ():
        if one.get("type") == kind and one.get("status") == wanted:
            return seconds(one.get("lastTransitionTime")) or 0.0
    return None


def _started(spec: Mapping[str, Any], status: Mapping[str, Any]) -> float | None:
    """When all containers ran, sidecars aside: those start before the engine's image is there."""
    states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
    times = [seconds((one.get("running") or {}).get("startedAt")) for one in states]
    if not times or len(times) < len(spec.get("containers") or ()) or None in times:
        return None
    return max(time for time in times if time is not None)


def _startup_budget(spec: Mapping[str, Any]) -> float | None:
    """The longest time that a startup probe allows (kubelet: delay + period x failures)."""
    probes = [one.get("startupProbe") for one in spec.get("containers") or ()]
    budgets = [
        float(one.get("initialDelaySeconds") or 0)
        + float(one.get("periodSeconds") or 10) * float(one.get("failureThreshold") or 3)
        for one in probes
        if one
    ]
    return max(budgets, default=None)


def _stuck(status: Mapping[str, Any]) -> str | None:
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return one.get("reason") or "Unschedulable"
    kinds = ("initContainerStatuses", "containerStatuses")
    for one in (one for kind in kinds for one in status.get(kind) or ()):
        reason = ((one.get("state") or {}).get("waiting") or {}).get("reason")
        if reason and reason not in ON_ITS_WAY:
            return f"{one['name']}: {reason}"
    return None


def _ports(containers: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    ports = (port for one in containers for port in one.get("ports") or ())
    return [(port.get("name", ""), port["containerPort"]) for port in ports]


def _sidecar_port(containers: Iterable[Mapping[str, Any]]) -> int | None:
    ports = _ports(containers)
    named = [number for name, number in ports if name == names.SIDECAR_PORT_NAME]
    usual = [number for _, number in ports if number == names.SIDECAR_PORT]
    return next(iter(named + usual), None)


def _engine_port(
    containers: Iterable[Mapping[str, Any]], annotations: Mapping[str, str]
) -> int | None:
    if (annotated := _integer(annotations.get(SCRAPE_PORT))) is not None:
        return annotated
    ports = dict(reversed([p for p in _ports(containers) if p[0] != names.SIDECAR_PORT_NAME]))
    return next((ports[name] for name in ENGINE_PORT_NAMES if name in ports), None)


def _drains(container: Mapping[str, Any]) -> bool:
    hook = (container.get("lifecycle") or {}).get("preStop") or {}
    command = (hook.get("exec") or {}).get("command") or ()
    path = (hook.get("httpGet") or {}).get("path") or ""
    return path.startswith(DRAIN_HOOK) or any(DRAIN_SCRIPT in str(word) for word in command)


def _integer(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
