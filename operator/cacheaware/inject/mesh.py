"""Service meshes: their proxies must leave the sidecar's port alone.

A mesh that takes all inbound traffic would want its own TLS from the operator, which has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cacheaware.inject.pod import Pod


@dataclass(frozen=True, slots=True)
class Mesh:
    """How a mesh is told to leave ports alone, and how it is seen in a pod template."""

    annotation: str
    """Of the pod: ports, separated by commas."""
    prefix: str
    """Of annotations that only its users write."""
    proxy: str
    asks: Mapping[str, tuple[str, ...]]
    """Labels or annotations that ask for it, and with which values; none: with any."""


ISTIO = Mesh(
    "traffic.sidecar.istio.io/excludeInboundPorts",
    "traffic.sidecar.istio.io/",
    "istio-proxy",
    {"sidecar.istio.io/inject": ("true",), "istio.io/rev": ()},
)
LINKERD = Mesh(
    "config.linkerd.io/skip-inbound-ports",
    "config.linkerd.io/",
    "linkerd-proxy",
    {"linkerd.io/inject": ("enabled", "ingress")},
)


def exclude_port(pod: Pod, port: int) -> None:
    """Take the sidecar's port out of the redirection of every mesh that can be seen.

    A namespace's label can't be seen in a manifest: `--mesh` tells it.
    """
    if pod.options.mesh is False:
        return
    for mesh in (ISTIO, LINKERD):
        if sees(pod, mesh) or (pod.options.mesh and mesh is ISTIO):
            exclude(pod, mesh.annotation, port)


def sees(pod: Pod, mesh: Mesh) -> bool:
    """Whether the template shows that a mesh takes part in the pod."""
    meta = pod.workload.template.get("metadata") or {}
    told = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    asked = any(
        name in told and (not values or str(told[name]).lower() in values)
        for name, values in mesh.asks.items()
    )
    present = any(one.get("name") == mesh.proxy for one in pod.others())
    return asked or present or any(str(name).startswith(mesh.prefix) for name in told)


def exclude(pod: Pod, annotation: str, port: int) -> None:
    """Add the port to an annotation, unless it is there."""
    meta = pod.record.child(pod.workload.template, "metadata", dict, "spec")
    there = str((meta.get("annotations") or {}).get(annotation) or "")
    ports = [part.strip() for part in there.split(",") if part.strip()]
    if str(port) not in ports and "*" not in ports:
        value = f"{there},{port}" if ports else str(port)
        annotations = pod.record.child(meta, "annotations", dict)
        pod.record.put(f"annotation {annotation}", annotations, annotation, value)


def included_again(value: Any, port: int) -> str:
    """An annotation's value without the sidecar's port."""
    parts = str(value or "").split(",")
    return ",".join(part for part in parts if part.strip() not in {"", str(port)})
