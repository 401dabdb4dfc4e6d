"""Puts the sidecar into a workload: the container and whatever in the pod has to agree with it."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from cacheaware.inject.api_key import note_plain_key
from cacheaware.inject.environment import Told
from cacheaware.inject.hooks import (
    add_grace,
    add_hook,
    add_shutdown_timeout,
    by_request,
    shutdown_seconds,
)
from cacheaware.inject.mesh import exclude_port
from cacheaware.inject.options import Options
from cacheaware.inject.pod import LeftAloneError, Pod
from cacheaware.inject.ports import port_for
from cacheaware.inject.probes import gate_engine
from cacheaware.inject.record import ANNOTATION, Record, record_of
from cacheaware.inject.removal import removed, sidecars
from cacheaware.inject.sidecar import container, with_own
from cacheaware.inject.volumes import add_volumes
from cacheaware.workload.engine import engine_of
from cacheaware.workload.template import LWS, Workload, workload_of


@dataclass(frozen=True, slots=True)
class Injected:
    """A workload with the sidecar."""

    body: Any
    notes: tuple[str, ...]
    """What was left alone, one line each."""


def injected(body: Any, options: Options) -> Injected:
    """A workload with the sidecar; what an earlier run put there is brought up to date.

    It is made by taking out what an earlier run put in and putting it in anew, so that a second
    run with the same options changes nothing.

    Raises:
        LeftAloneError: it can't be done here, and why.
        RecordError: the annotation is not what inject wrote.
    """
    there = sidecars(checked(body))
    earlier = record_of(body)
    if earlier is None and there:
        raise LeftAloneError(
            f"it carries a sidecar that inject did not put there ({there[0].get('name')}): run"
            " inject --remove first, or leave it as it is"
        )
    told = options.over(earlier.options if earlier else {})
    pod = pod_of(deepcopy(removed(body)), told)
    made = put_in(pod)
    if earlier and there:
        made = with_own(made, there[0], earlier)
    pod.record.child(pod.spec, "initContainers", list, "containers").append(made)
    write_record(pod)
    return Injected(settled(body, pod.workload.body), tuple(pod.notes))


def checked(body: Any) -> Workload:
    """The workload in an object.

    Raises:
        LeftAloneError: its pods can't carry the sidecar.
    """
    workload = workload_of(body)
    if workload is None:
        raise LeftAloneError("it has no pod template")
    if workload.kind == LWS:
        check_group(workload)
    return workload


def check_group(workload: Workload) -> None:
    """Groups of pods: the leader alone serves.

    Raises:
        LeftAloneError: leader and workers are one template, or wait for each other.
    """
    if workload.group_size <= 1:
        return
    if workload.leads_by_worker_template:
        raise LeftAloneError(
            "it has no leaderTemplate, and the sidecar belongs into the leader alone: copy"
            " workerTemplate to leaderTemplate first"
        )
    if (workload.body.get("spec") or {}).get("startupPolicy") == "LeaderReady":
        raise LeftAloneError(
            "startupPolicy LeaderReady makes the workers when the leader is Ready, and the sidecar"
            " lets it be Ready when its engine, which needs the workers, is warm: set"
            " LeaderCreated first"
        )


def pod_of(body: Any, options: Options) -> Pod:
    """The template to change, with its engine.

    Raises:
        LeftAloneError: which container is the engine can't be told.
    """
    workload = checked(body)
    engine = engine_of(workload, options.container)
    if engine is None:
        there = ", ".join(str(one.get("name")) for one in workload.containers) or "none"
        asked = options.container
        said = "which container is the engine can't be told; --container names one of"
        raise LeftAloneError(
            f"--container is {asked!r}: allowed are {there}" if asked else f"{said} {there}"
        )
    return Pod(workload, engine, options, Record(options=options.told(), engine=engine.name))


def put_in(pod: Pod) -> dict[str, Any]:
    """Change all but the list of init containers.

    Returns:
        The sidecar's container.
    """
    port = port_for(pod)
    hooked = add_hook(pod, port)
    shutdown = shutdown_seconds(pod)
    if hooked and by_request(pod):
        shutdown = add_shutdown_timeout(pod) or shutdown
    grace = add_grace(pod, shutdown, hooked)
    note_plain_key(pod)
    made = container(pod, Told(port, grace, shutdown))
    gate_engine(pod, port)
    add_volumes(pod)
    exclude_port(pod, port)
    pod.record.env = [one["name"] for one in made["env"]]
    pod.record.mounts = [one["mountPath"] for one in made["volumeMounts"]]
    return made


def write_record(pod: Pod) -> None:
    """Keep what was done beside the template, where it changes no pod."""
    meta = pod.record.child(pod.workload.body, "metadata", dict, "spec", place="own metadata")
    annotations = pod.record.child(meta, "annotations", dict, place="own annotations")
    annotations[ANNOTATION] = pod.record.text()


def settled(old: Any, new: Any) -> Any:
    """The new value with the lists of named things in the order that they had."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: settled(old[key], one) if key in old else one for key, one in new.items()}
    if isinstance(old, list) and isinstance(new, list) and new:
        order, named = names(old), dict(zip(names(new) or (), new, strict=False))
        if order and set(order) == set(named) and len(order) == len(new):
            return [settled(one, named[key]) for key, one in zip(order, old, strict=True)]
    return new


def names(items: list[Any]) -> list[str] | None:
    """The names of a list's items; None where they have none, or the same."""
    found = [
        str(one.get("mountPath") or one.get("name"))
        for one in items
        if isinstance(one, dict) and "name" in one
    ]
    return found if len(set(found)) == len(items) else None
