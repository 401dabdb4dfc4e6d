"""Whether a workload has the shape that Kubernetes demands, as far as anybody here looks into it.

A manifest may hold anything where a list of containers belongs. What does not fit is told with its
place, before any other code trips over it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from cacheaware_sidecar.clip import clipped


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without parts."""

    fits: Callable[[Any], bool]
    said: str
    needed: bool = False
    """It has to be there."""


MOST = 2**31 - 1
"""Of numbers in Kubernetes' own types."""
SHARE = re.compile(r"[0-9]{1,4}%")


def is_text(value: Any) -> bool:
    """Whether a value is text, or what YAML takes plain text for: a number, a boolean, a date."""
    return isinstance(value, str | int | float | date)


def is_count(value: Any) -> bool:
    """Whether a value is a number that Kubernetes takes; true is none."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


def is_bound(value: Any) -> bool:
    """Whether a value is a number of pods or a share of them."""
    return is_count(value) or (isinstance(value, str) and SHARE.fullmatch(value) is not None)


TEXT = Leaf(is_text, "text")
NAME = Leaf(lambda value: isinstance(value, str) and value != "", "a name", needed=True)
NUMBER = Leaf(is_count, f"a whole number from 0 to {MOST}")
SWITCH = Leaf(lambda value: isinstance(value, bool), "true or false")
BOUND = Leaf(is_bound, 'a whole number from 0 on or a share such as "25%"')
ANY: Mapping[str, Any] = {}
"""A mapping, whatever it holds."""
AMOUNTS = {"limits": {"*": TEXT}, "requests": {"*": TEXT}}
PROBE = {
    "httpGet": ANY,
    "initialDelaySeconds": NUMBER,
    "periodSeconds": NUMBER,
    "timeoutSeconds": NUMBER,
    "failureThreshold": NUMBER,
}
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
        "terminationGracePeriodSeconds": NUMBER,
        "activeDeadlineSeconds": NUMBER,
        "hostNetwork": SWITCH,
        "automountServiceAccountToken": SWITCH,
    },
}
ROLLING = {"maxSurge": BOUND, "maxUnavailable": BOUND}
WORKLOAD = {
    "metadata": METADATA,
    "spec": {
        "replicas": NUMBER,
        "minReadySeconds": NUMBER,
        "progressDeadlineSeconds": NUMBER,
        "strategy": {"rollingUpdate": ROLLING},
        "rolloutStrategy": {"rollingUpdateConfiguration": ROLLING},
        "template": TEMPLATE,
        "selector": {"matchLabels": {"*": TEXT}},
        "leaderWorkerTemplate": {
            "size": NUMBER,
            "leaderTemplate": TEMPLATE,
            "workerTemplate": TEMPLATE,
        },
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
        if not shape.fits(value):
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
