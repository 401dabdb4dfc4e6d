"""What an installed CRD lacks: Helm never upgrades one in `crds/`, and fields it lacks are dropped.

The API server drops unknown fields without an error, so that a limit becomes no limit. Each missing
field is told with its effect.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from cacheaware.api.schema import openapi_schema
from cacheaware.decide.policy import PRUNED
from cacheaware.names import VERSION

Schema = Mapping[str, Any]
PRESERVES = "x-kubernetes-preserve-unknown-fields"


def missing_fields(installed: Schema) -> list[str]:
    """One line for each field that the installed CRD lacks, with the effect.

    Args:
        installed: The CustomResourceDefinition as the API server has it.

    Returns:
        The lines, in the order of the fields; empty when nothing is missing.
    """
    version = version_of(installed)
    if version is None or not version.get("served", True):
        return [f"version {VERSION} is not served by the installed CRD: nothing can be read"]
    schema = version.get("schema", {}).get("openAPIV3Schema", {})
    ours = openapi_schema()["properties"]
    written = {"properties": {"spec": ours["spec"], "status": ours["status"]}}
    lines = [
        f"{path} is missing in the installed CRD: {effect(path, field)}"
        for path, field in lacking("", written, schema)
    ]
    if "status" not in version.get("subresources", {}):
        lines.append("the status subresource is missing in the installed CRD: status is not stored")
    return lines


def version_of(installed: Schema) -> Schema | None:
    """Our version in a CRD."""
    versions = installed.get("spec", {}).get("versions", [])
    return next((one for one in versions if one.get("name") == VERSION), None)


def lacking(path: str, ours: Schema, theirs: Schema) -> Iterator[tuple[str, Schema]]:
    """The fields without fields of their own that one schema has and the other lacks."""
    if theirs.get(PRESERVES):
        return
    if "items" in ours and "properties" in ours["items"]:
        yield from lacking(f"{path}[]", ours["items"], theirs.get("items", {}))
        return
    has = theirs.get("properties", {})
    for name, field in ours.get("properties", {}).items():
        inner = f"{path}.{name}" if path else name
        if name not in has and is_field(field):
            yield inner, field
        elif field.get("properties") or field.get("items"):
            yield from lacking(inner, field, has.get(name, {}))


def is_field(schema: Schema) -> bool:
    """Whether a schema is told as one: a value, or a list, whose loss is one loss."""
    return "properties" not in schema


def effect(path: str, field: Schema) -> str:
    """What it means that a field is dropped."""
    if path.startswith("status."):
        return "it is not stored, so it is not shown"
    if path.endswith(".policies"):
        return f"whatever is set, at most {PRUNED.value} {PRUNED.type.lower()} per minute apply"
    if "default" in field:
        return f"whatever is set is dropped, and {field['default']} applies"
    return "whatever is set is dropped"
