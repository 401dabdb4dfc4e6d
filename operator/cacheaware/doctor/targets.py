"""Which other objects of the namespace mean this workload."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cacheaware.doctor.subject import Subject
from cacheaware.observe.selector import selector_of


def scalers_of(subject: Subject) -> list[Any]:
    """The CacheAwareScalers of a workload."""
    return list(aimed_at(subject, subject.facts.scalers, "scaleTargetRef"))


def aimed_at(subject: Subject, objects: Iterable[Any] | None, reference: str) -> Iterator[Any]:
    """Objects whose reference names the workload, in its namespace."""
    workload = subject.workload
    for one in objects or ():
        ref = (one.get("spec") or {}).get(reference) or {}
        same = (ref.get("kind"), ref.get("name")) == (workload.kind, workload.name)
        if same and in_namespace(one, workload.namespace):
            yield one


def selecting(subject: Subject, objects: Iterable[Any] | None) -> list[Any]:
    """Objects whose selector selects the workload's pods."""
    labels = (subject.workload.template.get("metadata") or {}).get("labels") or {}
    return [
        one
        for one in objects or ()
        if in_namespace(one, subject.workload.namespace)
        and selects((one.get("spec") or {}).get("selector"), labels)
    ]


def in_namespace(body: Any, namespace: str | None) -> bool:
    """Whether an object is in a namespace; one that names none goes where the workload goes."""
    own = (body.get("metadata") or {}).get("namespace")
    return own is None or namespace is None or own == namespace


def selects(selector: Any, labels: Mapping[str, Any]) -> bool:
    """Whether a selector selects pods with these labels; none at all selects nothing.

    An empty selector selects everything, as in policy/v1.
    """
    return isinstance(selector, Mapping) and selector_of(selector).matches(labels)
