"""The CustomResourceDefinition, made from the models, and what an installed one lacks."""

from typing import Any

from cacheaware.api.installed import missing_fields
from cacheaware.api.schema import openapi_schema
from cacheaware.names import CATEGORY, GROUP, KIND, PLURAL, SHORT, SINGULAR, VERSION

__all__ = ["COLUMNS", "crd", "missing_fields", "openapi_schema"]

COLUMNS: tuple[tuple[str, str, str, str], ...] = (
    ("Target", "string", ".spec.scaleTargetRef.name", "The workload that is scaled."),
    ("Mode", "string", ".spec.mode", "Whether it acts or advises."),
    ("Min", "integer", ".spec.minReplicas", "Never fewer than this."),
    ("Max", "integer", ".spec.maxReplicas", "Never more than this."),
    ("Current", "integer", ".status.currentReplicas", "Replicas that the target asks for."),
    ("Desired", "integer", ".status.desiredReplicas", "Replicas that the operator wants."),
    ("Starting", "integer", ".status.startingReplicas", "Pods ordered and not yet serving."),
    ("Cordoned", "integer", ".status.cordonedReplicas", "Pods that go when they are empty."),
    (
        "Ready",
        "string",
        '.status.conditions[?(@.type=="Ready")].status',
        "Whether the operator can do its work here.",
    ),
    (
        "Reason",
        "string",
        '.status.conditions[?(@.type=="Ready")].reason',
        "The last decision in one word.",
    ),
    ("Age", "date", ".metadata.creationTimestamp", "Since it was created."),
)


def crd() -> dict[str, Any]:
    """The CustomResourceDefinition of the CacheAwareScaler."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": SINGULAR,
                "shortNames": [SHORT],
                "categories": [CATEGORY],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path, "description": text}
                        for name, kind, path, text in COLUMNS
                    ],
                    "schema": {"openAPIV3Schema": openapi_schema()},
                }
            ],
        },
    }
