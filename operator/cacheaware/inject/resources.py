"""The sidecar's share of CPU and memory: as much as it needs, in the pod's own class of service.

Kubernetes calls a pod Guaranteed when every container has limits for CPU and memory and asks for
just these, BestEffort when none asks for anything, and Burstable in between. The class decides who
is killed first when a node runs out of memory, so a sidecar must not change it.
"""

from typing import Any

from cacheaware.workload.template import Workload

COUNTED = ("cpu", "memory")
"""The only resources that the class depends on."""
GUARANTEED = {"cpu": "200m", "memory": "96Mi"}
BURSTABLE = {
    "requests": {"cpu": "10m", "memory": "48Mi"},
    "limits": {"memory": "96Mi"},
}
"""No limit for CPU: a throttled sidecar answers its probes late."""
SHAPES: tuple[Any, ...] = (None, BURSTABLE, {"requests": GUARANTEED, "limits": GUARANTEED})
"""What inject writes; anything else is a user's own."""


def resources_for(workload: Workload) -> dict[str, Any] | None:
    """Resources that keep the class of the pod; None where it has to ask for nothing."""
    if workload.spec.get("resources"):
        return None  # of the whole pod: they decide the class, and the sidecar shares them
    every = [*workload.containers, *workload.init_containers]
    if all(is_guaranteed(one) for one in every):
        return {"requests": dict(GUARANTEED), "limits": dict(GUARANTEED)}
    if not any(map(asks, every)):
        return None
    return {name: dict(value) for name, value in BURSTABLE.items()}


def is_guaranteed(container: Any) -> bool:
    """Whether a container asks for just its limits; requests left out are the limits."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return all(
        name in limits and amount(requests.get(name, limits[name])) == amount(limits[name])
        for name in COUNTED
    )


def asks(container: Any) -> bool:
    """Whether a container asks for CPU or memory at all."""
    resources = container.get("resources") or {}
    return any(
        (resources.get(kind) or {}).get(name) is not None
        for kind in ("requests", "limits")
        for name in COUNTED
    )


UNITS = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


def amount(quantity: Any) -> float | str:
    """A quantity as a number, so that 1 and 1000m are the same; as it is where it is none.

    >>> amount("1500m") == amount(1.5), amount("1Gi") == amount("1024Mi")
    (True, True)
    """
    text = str(quantity)
    number = text.rstrip("mkKMGTPEi")
    try:
        return round(float(number) * UNITS[text[len(number) :]], 6)
    except (ValueError, KeyError):
        return text
