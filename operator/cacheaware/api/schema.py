"""The structural schema, made from the models: what they refuse, the API server refuses.

Pydantic's JSON schema becomes a structural one: references are put in place, titles and nulls go,
integers get a format, nested objects with defaults get `{}` so that these are filled in, and the
rules of the models become `x-kubernetes-validations`.
"""

from typing import Any

from pydantic import BaseModel

from cacheaware.api.base import Model, Rule
from cacheaware.api.models import CacheAwareScaler

Schema = dict[str, Any]

FIRST = ("description", "type", "default", "enum", "required", "properties", "items")
DROPPED = ("title", "additionalProperties", "$defs")


def openapi_schema() -> Schema:
    """The structural schema of a CacheAwareScaler."""
    schema = schema_of(CacheAwareScaler)
    schema["properties"]["apiVersion"] = {"type": "string"}
    schema["properties"]["kind"] = {"type": "string"}
    schema["properties"]["metadata"] = {"type": "object"}
    schema["x-kubernetes-validations"] = validations(CacheAwareScaler.transition_rules)
    return schema


def schema_of(model: type[BaseModel]) -> Schema:
    """The structural schema of a model."""
    raw = model.model_json_schema(by_alias=True)
    return structural(raw, {**raw.get("$defs", {}), model.__name__: raw}, models_of(model))


def models_of(model: type[BaseModel]) -> dict[str, type[Model]]:
    """All models of the API by the name that pydantic gives their definition."""
    found = {one.__name__: one for one in subclasses(Model)}
    return {**found, model.__name__: model} if issubclass(model, Model) else found


def subclasses(model: type[Model]) -> list[type[Model]]:
    """A class's subclasses, theirs included."""
    direct = model.__subclasses__()
    return direct + [deeper for one in direct for deeper in subclasses(one)]


def structural(node: Schema, defs: dict[str, Schema], models: dict[str, type[Model]]) -> Schema:
    """One node of a JSON schema as Kubernetes wants it."""
    node, optional = unfolded(node, defs)
    # A field's title may be a model's name: the number `schedule` is no Schedule.
    model = models.get(node.get("title", "")) if node.get("type") == "object" else None
    rules = validations(model.rules) if model else []
    schema = {key: node[key] for key in sorted(node, key=place_of) if key not in DROPPED}
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    if schema.get("default", ...) is None or optional:
        schema.pop("default", None)
    if schema.get("type") == "integer":
        schema.setdefault("format", "int32")
    if "items" in schema:
        schema["items"] = structural(schema["items"], defs, models)
    if "properties" in schema:
        required = schema.get("required", [])
        schema["properties"] = {
            name: filled(structural(child, defs, models), child, required=name in required)
            for name, child in schema["properties"].items()
        }
    if rules:
        schema["x-kubernetes-validations"] = rules
    return schema


def place_of(key: str) -> tuple[int, str]:
    """Where a key of a schema stands, so that the CRD reads well."""
    return (FIRST.index(key), "") if key in FIRST else (len(FIRST), key)


def unfolded(node: Schema, defs: dict[str, Schema]) -> tuple[Schema, bool]:
    """A node with its reference put in place, and whether it may be null."""
    optional = False
    if "anyOf" in node:
        (inner,) = [one for one in node["anyOf"] if one != {"type": "null"}]
        optional = True
        node = {**inner, **{key: value for key, value in node.items() if key != "anyOf"}}
    if "$ref" in node:
        target = defs[node["$ref"].rsplit("/", 1)[1]]
        own = {key: value for key, value in node.items() if key != "$ref"}
        node = {**target, **own, "title": target["title"]}
    return node, optional


def filled(schema: Schema, raw: Schema, *, required: bool) -> Schema:
    """A nested object that is neither required nor optional is filled with its defaults."""
    if schema.get("type") == "object" and not required and "anyOf" not in raw:
        return {key: schema.get(key, {}) for key in sorted({*schema, "default"}, key=place_of)}
    return schema


def validations(rules: tuple[Rule, ...]) -> list[dict[str, str]]:
    """Rules as `x-kubernetes-validations`."""
    return [rule.schema() for rule in rules]
