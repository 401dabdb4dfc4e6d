"""Where the sidecar stands in the pod: native, with its probes, its folder and its port."""

from collections.abc import Iterator
from typing import Any

from cacheaware.doctor.findings import Finding
from cacheaware.doctor.probes import probe_of
from cacheaware.doctor.sidecar import LIVENESS, READINESS, Place, Sidecar, mounts_of
from cacheaware.doctor.subject import Subject
from cacheaware.workload.hooks import DRAIN_SCRIPT
from cacheaware.workload.template import LWS, whole_number

INJECT = "run `cacheaware inject`, which puts the sidecar where it belongs"
CORDON_S = 5
"""A cordoned pod has to be out of the endpoints within this time."""
READINESS_SAYS = "readinessProbe with periodSeconds 1, timeoutSeconds 2, failureThreshold 3"
NODE_PORTS = frozenset({9100, 10248, 10249, 10250, 10255, 10256, 10257, 10259})
"""Ports that node-exporter, kubelet, kube-proxy and the control plane have on nodes."""


def placement(subject: Subject) -> Iterator[Finding]:
    """All about the sidecar's place."""
    sidecar = subject.sidecar
    if sidecar is None:
        yield subject.warning(
            "sidecar-missing",
            "no sidecar: a new pod serves cold, its first long prompts stutter, and a scale-down"
            " can neither watch a pod empty nor call it back",
            "run `cacheaware inject`",
        )
        return
    yield from native(subject, sidecar)
    yield from readiness(subject, sidecar)
    yield from other_probes(subject, sidecar)
    yield from shared_folder(subject, sidecar)
    yield from ports(subject, sidecar)


def native(subject: Subject, sidecar: Sidecar) -> Iterator[Finding]:
    """A native sidecar starts before the engine and ends after it."""
    if sidecar.place is Place.BESIDE:
        yield subject.error(
            "sidecar-not-native",
            f"{sidecar.name} is an ordinary container: it gets SIGTERM together with the engine,"
            " and the drain hook has nobody to ask",
            f"move it to initContainers with restartPolicy: Always; or {INJECT}",
        )
    elif sidecar.place is Place.INIT:
        yield subject.error(
            "sidecar-blocks-start",
            f"{sidecar.name} is an init container without restartPolicy: Always: it never ends, so"
            " the engine never starts",
            f"add restartPolicy: Always to {sidecar.name}",
        )


def readiness(subject: Subject, sidecar: Sidecar) -> Iterator[Finding]:
    """The readinessProbe is the warm-up gate and the cordon."""
    raw = sidecar.container.get("readinessProbe") or {}
    probe = probe_of(sidecar.container, "readinessProbe")
    if probe is None or path_of(raw) != READINESS:
        yield subject.error(
            "sidecar-readiness-missing",
            f"{sidecar.name} has no readinessProbe on {READINESS}: pods are Ready before they are"
            " warm, and a cordon takes none out of the endpoints",
            f"add a {READINESS_SAYS} on {READINESS}",
        )
        return
    slow = probe.period_s * probe.failures > CORDON_S
    timeout = whole_number(raw.get("timeoutSeconds"), 0) or 1
    if slow or timeout < 2 or probe.failures < 3:
        why = f"a cordoned pod stays in the endpoints for {probe.period_s * probe.failures} s"
        flaps = "a sidecar that is throttled for a moment takes a serving pod out of the endpoints"
        yield subject.warning(
            "sidecar-readiness-timing",
            f"the readinessProbe of {sidecar.name} has periodSeconds {probe.period_s},"
            f" timeoutSeconds {timeout}, failureThreshold {probe.failures}:"
            f" {why if slow else flaps}",
            f"use a {READINESS_SAYS}",
        )


def other_probes(subject: Subject, sidecar: Sidecar) -> Iterator[Finding]:
    """A startupProbe that waits for the engine waits for ever."""
    startup = sidecar.container.get("startupProbe") or {}
    if startup and path_of(startup) != LIVENESS:
        yield subject.error(
            "sidecar-startup-probe",
            f"{sidecar.name} has a startupProbe: the engine starts only after it has passed, and"
            " the sidecar is ready only after the engine is",
            f"remove the startupProbe of {sidecar.name}",
        )
    liveness = sidecar.container.get("livenessProbe") or {}
    if path_of(liveness) == READINESS:
        yield subject.error(
            "sidecar-liveness-path",
            f"the livenessProbe of {sidecar.name} asks {READINESS}: it is restarted while the model"
            " loads and whenever the pod is cordoned",
            f"let it ask {LIVENESS}",
        )


def path_of(probe: Any) -> str:
    """The path of an HTTP probe; empty for other probes."""
    return str((probe.get("httpGet") or {}).get("path") or "")


def shared_folder(subject: Subject, sidecar: Sidecar) -> Iterator[Finding]:
    """The emptyDir that holds wait.py, the drain socket and the phase."""
    folder = sidecar.shared_dir
    if folder is None:
        return
    volumes = {one.get("name"): one for one in subject.workload.spec.get("volumes") or ()}
    volume = mounts_of(sidecar.container).get(folder.rstrip("/"))
    fix = f"mount one emptyDir at {folder} in {sidecar.name} and in {subject.engine.name}"
    if volume is None or "emptyDir" not in (volumes.get(volume) or {}):
        yield subject.error(
            "shared-volume",
            f"{sidecar.name} has no emptyDir at {folder}: its phase does not survive a restart of"
            " its own, and the engine's hook finds no script",
            fix,
        )
    elif subject.hook.script is not None:
        yield from script_place(subject, folder, volume, fix)


def script_place(subject: Subject, folder: str, volume: str, fix: str) -> Iterator[Finding]:
    """Whether the hook's script is what the sidecar put into the shared folder."""
    script = str(subject.hook.script)
    at = script.removesuffix(DRAIN_SCRIPT)
    if mounts_of(subject.engine.container).get(at) != volume or at != folder.rstrip("/"):
        yield subject.error(
            "hook-script-missing",
            f"the preStop hook runs {script}, and the shared folder is {folder}, not mounted there"
            f" in {subject.engine.name}: the hook fails, and SIGTERM comes at once",
            f"{fix}, and let the hook run {folder}{DRAIN_SCRIPT}",
        )


def ports(subject: Subject, sidecar: Sidecar) -> Iterator[Finding]:
    """Whether the sidecar's port is its own, and the operator finds it."""
    own = sidecar.container.get("ports") or ()
    numbers = {one.get("containerPort") for one in own}
    if sidecar.port not in numbers:
        yield subject.error(
            "sidecar-port-untold",
            f"{sidecar.name} listens on {sidecar.port}, and names the ports"
            f" {', '.join(map(str, sorted(filter(None, numbers)))) or 'none'}: the operator does"
            " not find it",
            f"name the container port {sidecar.port} `cacheaware`, and set CACHEAWARE_PORT to it",
        )
    taken = {one: name for name, one in ports_taken(subject, sidecar)}
    if sidecar.port in taken:
        yield subject.error(
            "port-clash",
            f"{sidecar.name} and {taken[sidecar.port]} both want port {sidecar.port}: one of them"
            " does not start",
            "give the sidecar another port (CACHEAWARE_PORT, its container port, its probes)",
        )
    if subject.workload.spec.get("hostNetwork"):
        yield from host_network(subject, sidecar)


def ports_taken(subject: Subject, sidecar: Sidecar) -> Iterator[tuple[str, int]]:
    """Ports of the other containers."""
    yield subject.engine.name, subject.engine.port
    for one in [*subject.workload.init_containers, *subject.workload.containers]:
        if one is not sidecar.container:
            for port in one.get("ports") or ():
                yield str(one.get("name")), port.get("containerPort")


def host_network(subject: Subject, sidecar: Sidecar) -> Iterator[Finding]:
    """Under host networking a port is taken on the whole node."""
    fix = "give the sidecar a port that is free on the nodes (CACHEAWARE_PORT, its container port)"
    if sidecar.port in NODE_PORTS:
        yield subject.error(
            "host-port-taken",
            f"the pod uses the node's network, where port {sidecar.port} belongs to the node's own"
            " programs",
            fix,
        )
    elif subject.replicas != 1 and subject.workload.kind != LWS:
        yield subject.info(
            "host-network",
            f"the pods use the node's network: two of them on one node would both want ports"
            f" {sidecar.port} and {subject.engine.port}, so an update needs a node without one",
            "drop hostNetwork, or set maxSurge to 0",
        )
