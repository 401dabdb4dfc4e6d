"""Other containers that requests pass through: one that ends before the engine cuts its streams."""

import re
from collections.abc import Iterator
from typing import Any

from cacheaware.doctor.findings import Finding
from cacheaware.doctor.longest import available_s
from cacheaware.doctor.subject import Subject
from cacheaware.workload.engine import image_name
from cacheaware.workload.hooks import HookKind, hook_of

PROXIES = re.compile(
    r"istio-proxy|proxyv2|envoy|linkerd|nginx|openresty|haproxy|traefik|caddy|oauth2-proxy"
    r"|auth-?proxy|kube-rbac-proxy|consul-dataplane|kong|apisix|routing-(sidecar|proxy)|pd-sidecar"
)
"""In a container's name or its image's: requests pass through it."""
ISTIO = "sidecar.istio.io/inject"


def request_path(subject: Subject) -> Iterator[Finding]:
    """Proxies among the ordinary containers, and those that a mesh will add."""
    for one in subject.neighbours:
        if is_proxy(one):
            yield from proxy(subject, one)
    meta = subject.workload.template.get("metadata") or {}
    asked = {**(meta.get("annotations") or {}), **(meta.get("labels") or {})}.get(ISTIO)
    present = [*subject.neighbours, *subject.workload.sidecars]
    if str(asked).lower() == "true" and not any(
        one.get("name") == "istio-proxy" for one in present
    ):
        yield subject.info(
            "mesh-injected",
            "istio-proxy comes at admission: as an ordinary container it ends before the engine",
            "use Istio's native sidecars (values.pilot.env.ENABLE_NATIVE_SIDECARS, the default from"
            " 1.27 on), and ask again about the running pods",
        )


def is_proxy(container: Any) -> bool:
    """Whether requests pass through a container, by its name and image."""
    name = f"{container.get('name', '')} {image_name(container).rpartition('/')[2]}"
    return PROXIES.search(name) is not None and "exporter" not in name


def proxy(subject: Subject, container: Any) -> Iterator[Finding]:
    """A proxy in an ordinary container, which gets SIGTERM when its own hook ends."""
    name, hook, needed = container.get("name"), hook_of(container), wait_s(subject)
    fix = (
        f"make {name} a native sidecar (initContainers, restartPolicy: Always): it then ends after"
        " the engine"
    )
    if hook.kind is HookKind.NONE:
        yield subject.error(
            "proxy-ends-first",
            f"{name} is on the path of the requests and gets SIGTERM as soon as the pod is deleted,"
            f" while the engine works on{for_seconds(needed)}: their streams are cut",
            fix,
        )
    elif hook.seconds is not None and needed is not None and hook.seconds < needed:
        yield subject.warning(
            "proxy-ends-early",
            f"{name} is on the path of the requests and waits {hook.seconds:g} s, while the engine"
            f" works on{for_seconds(needed)}",
            fix,
        )


def wait_s(subject: Subject) -> float | None:
    """How long the engine goes on after the deletion: its hook, and what it finishes after it."""
    available, hook = available_s(subject), subject.hook
    if hook.kind is HookKind.DRAIN:
        return available
    if hook.seconds is None:
        return None
    return hook.seconds + (available or 0.0)


def for_seconds(seconds: float | None) -> str:
    """How long, where that is known."""
    return f" for up to {seconds:g} s" if seconds else ""
