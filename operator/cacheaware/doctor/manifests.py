"""Reads manifests: the workloads in them, and the objects around that rules want to know."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cacheaware.doctor.facts import Facts
from cacheaware.names import KIND
from cacheaware.workload.no_yaml import why_no_yaml
from cacheaware.workload.template import mappings

AROUND = {
    "PodDisruptionBudget": "budgets",
    "HorizontalPodAutoscaler": "horizontal",
    "VerticalPodAutoscaler": "vertical",
    KIND: "scalers",
}
"""Kinds that say something about a workload beside them, and the fact that they are."""


class ManifestError(ValueError):
    """The text is no YAML; one line."""


def documents_of(text: str) -> list[Any]:
    """The objects of a manifest; lists (`kind: List`) are taken apart.

    Raises:
        ManifestError: it is no YAML.
    """
    try:
        found = list(YAML(typ="safe", pure=True).load_all(text))
    except (YAMLError, ValueError, RecursionError) as error:
        raise ManifestError(why_no_yaml(text, error)) from error
    return [one for document in found for one in parts(document)]


def parts(document: Any) -> Iterator[Any]:
    """An object, or the objects of a list."""
    if isinstance(document, Mapping) and str(document.get("kind", "")).endswith("List"):
        yield from mappings(document.get("items"))
    elif isinstance(document, Mapping):
        yield document


def facts_around(documents: Iterable[Any]) -> Facts:
    """What the other objects of a manifest tell; kinds that it has none of are unknown."""
    found: dict[str, tuple[Any, ...]] = {}
    for one in documents:
        name = AROUND.get(str(one.get("kind")))
        if name is not None:
            found[name] = (*found.get(name, ()), one)
    return Facts(
        budgets=found.get("budgets"),
        horizontal=found.get("horizontal"),
        vertical=found.get("vertical"),
        scalers=found.get("scalers"),
    )
