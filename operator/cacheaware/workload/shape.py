"""Whether a workload has the shape that Kubernetes demands, as far as anybody here looks into it.

A manifest may hold anything where a list of containers belongs. What does not fit is told with its
place, before any other code trips over it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cacheaware_sidecar.clip import clipped


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without parts."""

    kinds: tuple[type, ...]
    said: str
    needed: bool = False
    """It has to be there."""


TEXT = Leaf((str, int, float, bool), "text")
NAME = Leaf((str,), "a name", needed=True)
NUMBER = Leaf((int,), "a whole number")
ANY: Mapping[str, Any] = {}
"""A mapping, whatever it holds."""
AMOUNTS = {"limits": {"*": TEXT}, "requests": {"*": TEXT}}
PROBE = {"httpGet": ANY}
HANDLER = {"exec": {"command": [TEXT]}, "httpGet": ANY, "sleep": {"seconds": NUMBER}}
CONTAINER = {
    "name": NAME,
    "image": TEXT,
    "command": [TEXT],
    "args": [TEXT],
    "env": [{"name": NAME, "value": TEXT, "valueFrom": {"secretKeyRef": ANY}}],
    "ports": [{"name": TEXT, "containerPort": NUMBER, "hostPort": NUMBER}],
    "resources": AMOUNTS,
    "lifecycle": {"preStop": HANDLER},
    "readinessProbe": PROBE,
    "livenessProbe": PROBE,
    "startupProbe": PROBE,
    "securityContext": ANY,
    "volumeMounts": [{"name": NAME, "mountPath": TEXT}],
}
METADATA = {"name": TEXT, "namespace": TEXT, "labels": {"*": TEXT}, "annotations": {"*": TEXT}}
TEMPLATE = {
    "metadata": METADATA,
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [CONTAINER],
        "volumes": [{"name": NAME}],
        "resources": AMOUNTS,
        "nodeSelector": {"*": TEXT},
    },
}
WORKLOAD = {
    "metadata": METADATA,
    "spec": {
        "template": TEMPLATE,
        "selector": {"matchLabels": {"*": TEXT}},
        "leaderWorkerTemplate": {"leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE},
    },
}


def misfit(body: Any) -> str | None:
    """The first value of a workload that can't be there; None where all is well.

    >>> misfit({"spec": {"template": {"spec": {"containers": [{"name": 3}]}}}})
    'spec.template.spec.containers[0].name is 3: allowed is a name'
    """
    return next(misfits(body, WORKLOAD, ""), None)


def misfits(value: Any, shape: Any, path: str) -> Iterator[str]:
    """All values that can't be where they are; what is left out or null is never one."""
    if isinstance(shape, Leaf):
        if not (isinstance(value, shape.kinds) and (value or not shape.needed)):
            yield said(path, value, shape.said)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield said(path, value, "a list")
            return
        for at, item in enumerate(value):
            yield from misfits(item, shape[0], f"{path}[{at}]")
    elif not isinstance(value, Mapping):
        yield said(path, value, "a mapping")
    else:
        for key, inner in shape.items():
            yield from parts(value, key, inner, path)


def parts(value: Any, key: str, inner: Any, path: str) -> Iterator[str]:
    """The misfits at a key, or at every key."""
    for name in value if key == "*" else [key]:
        found, needed = value.get(name), isinstance(inner, Leaf) and inner.needed
        if found is not None or needed:
            yield from misfits(found, inner, f"{path}.{name}" if path else str(name))


def said(path: str, value: Any, allowed: str) -> str:
    """One line."""
    return f"{path or 'the object'} is {clipped(repr(value))}: allowed is {allowed}"
