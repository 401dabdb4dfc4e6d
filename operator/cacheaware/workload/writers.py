"""Who wrote a workload's replicas, as the API server remembers it in `managedFields`."""

from collections.abc import Mapping
from typing import Any

from cacheaware.names import FIELD_MANAGER
from cacheaware.workload.template import below, mappings

REPLICAS = ("fieldsV1", "f:spec")


def replicas_by(body: Mapping[str, Any]) -> str:
    """The other field manager that last wrote `spec.replicas`; empty where none is known.

    >>> mine = {"manager": "argocd", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    >>> replicas_by({"metadata": {"managedFields": [mine]}})
    'argocd'
    """
    entries = mappings(below(body, ("metadata", "managedFields")))
    owners = [
        one
        for one in entries
        if "f:replicas" in (below(one, REPLICAS) or {}) and one.get("manager") != FIELD_MANAGER
    ]
    newest: Mapping[str, Any] = max(owners, key=lambda one: str(one.get("time") or ""), default={})
    return str(newest.get("manager") or "")
