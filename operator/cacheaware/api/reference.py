"""The reference of the CacheAwareScaler as Markdown, made from the CRD: it can't say else."""

from collections.abc import Iterator
from typing import Any

from cacheaware.api.crd import COLUMNS, crd

Schema = dict[str, Any]

HEAD = """\
# CacheAwareScaler

<!-- Made by `cacheaware crd --reference`; edit operator/cacheaware/api instead. -->

A CacheAwareScaler scales one workload of LLM engines by what their KV caches hold. The least that
it needs:

```yaml
apiVersion: cacheaware.dev/v1alpha1
kind: CacheAwareScaler
metadata:
  name: chat
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: chat
  maxReplicas: 8
```

It begins in `mode: Advise`: it decides and reports, and writes nothing but its own status. Read
what it would do (`kubectl get cas`, `kubectl cacheaware explain chat`), then set `mode: Scale`.

Durations are whole seconds and ratios whole percent. The API server refuses what is out of bounds.
"""
COLUMNS_HEAD = """\
## What `kubectl get cas` shows

| column | where from | meaning |
| --- | --- | --- |
"""
FIELDS = """\
| field | type | default | allowed | meaning |
| --- | --- | --- | --- | --- |
"""
STATUS_FIELDS = """\
| field | type | meaning |
| --- | --- | --- |
"""
RULES_HEAD = """\
## Rules over several fields

Refused with these words:

| where | rule |
| --- | --- |
"""


def reference() -> str:
    """The whole page."""
    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec, status = schema["properties"]["spec"], schema["properties"]["status"]
    parts = [
        HEAD,
        "## spec\n\n" + FIELDS + "".join(spec_row(*field) for field in fields(spec)),
        RULES_HEAD + "".join(rule_row(*rule) for rule in rules("", schema)),
        "## status\n\n" + STATUS_FIELDS + "".join(status_row(*one) for one in fields(status)),
        COLUMNS_HEAD + "".join(f"| {n.upper()} | `{p}` | {text} |\n" for n, _, p, text in COLUMNS),
    ]
    return "\n".join(parts)


def fields(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema, bool]]:
    """Each field below a schema: path, schema, required."""
    for name, field in schema.get("properties", {}).items():
        inner = f"{path}.{name}" if path else name
        yield inner, field, name in schema.get("required", [])
        yield from fields(field, inner)
        yield from fields(field.get("items", {}), f"{inner}[]")


def rules(path: str, schema: Schema) -> Iterator[tuple[str, str]]:
    """Each rule at or below a schema: path and message."""
    for rule in schema.get("x-kubernetes-validations", []):
        yield path + rule.get("fieldPath", ""), rule["message"]
    for name, field in schema.get("properties", {}).items():
        yield from rules(f"{path}.{name}", field)
        yield from rules(f"{path}.{name}[]", field.get("items", {}))


def spec_row(path: str, field: Schema, required: bool) -> str:
    """A row of the table of `spec`."""
    default = "**required**" if required else default_of(field)
    return row(f"`{path}`", field["type"], default, allowed(field), field["description"])


def status_row(path: str, field: Schema, _: bool) -> str:
    """A row of the table of `status`."""
    return row(f"`{path}`", field["type"], field.get("description", ""))


def rule_row(path: str, message: str) -> str:
    """A row of the table of rules."""
    return row(f"`{path.removeprefix('.')}`", message)


def row(*cells: str) -> str:
    """A table row; a bar within a cell is escaped."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def default_of(field: Schema) -> str:
    """The default in words."""
    default = field.get("default")
    if default is None or default == {}:
        return ""
    if isinstance(default, list):
        return "; ".join(
            f"{one['value']} {one['type']} per {one['periodSeconds']} s" for one in default
        )
    return f"`{default}`"


def allowed(field: Schema) -> str:
    """What a field may hold."""
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    if "maximum" in field:
        return f"{field['minimum']:,} to {field['maximum']:,}"
    if "maxItems" in field:
        items = allowed(field["items"])
        least = f"{field['minItems']} to" if "minItems" in field else "up to"
        return f"{least} {field['maxItems']} items" + (f", each {items}" if items else "")
    return f"up to {field['maxLength']} characters" if "maxLength" in field else ""
