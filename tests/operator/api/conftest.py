"""A stand-in for the API server: defaulting, the schema, list types, CEL rules, pruning."""

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

import celpy
import jsonschema
import pytest

from cacheaware.api.crd import openapi_schema

SCHEMA = openapi_schema()
CEL = celpy.Environment()  # raises the recursion limit, so not within a test
KNOWN = jsonschema.Draft202012Validator(SCHEMA)


@functools.cache
def program(expression: str) -> Any:
    return CEL.program(CEL.compile(expression))


def evaluated(expression: str, self: Any, old: Any = None) -> Any:
    names = {"self": celpy.json_to_cel(self)}
    return program(expression).evaluate(
        names if old is None else {**names, "oldSelf": celpy.json_to_cel(old)}
    )


def defaulted(schema: dict[str, Any], value: Any) -> Any:
    """Structural defaulting: an absent field with a default is filled in, from above to below."""
    if isinstance(value, dict):
        kept = {name: item for name, item in value.items() if item is not None}
        for name, field in schema.get("properties", {}).items():
            if name not in kept and "default" in field:
                kept[name] = copy.deepcopy(field["default"])
            if name in kept:
                kept[name] = defaulted(field, kept[name])
        return kept
    if isinstance(value, list) and "items" in schema:
        return [defaulted(schema["items"], item) for item in value]
    if schema.get("type") == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)  # kubectl's JSON writes 1.0 as 1
    return value


def pruned(schema: dict[str, Any], value: Any) -> Any:
    """What the API server stores: fields that the schema does not know are dropped."""
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        return {name: pruned(known[name], item) for name, item in value.items() if name in known}
    if isinstance(value, list) and "items" in schema:
        return [pruned(schema["items"], item) for item in value]
    return value


def broken_rules(schema: dict[str, Any], value: Any, old: Any = None) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", []):
        if "oldSelf" in rule["rule"] and old is None:
            continue
        if not evaluated(rule["rule"], value, old):
            said = rule.get("messageExpression")
            yield rule["message"] if said is None else str(evaluated(said, value))
    if isinstance(value, dict):
        for name, field in schema.get("properties", {}).items():
            if name in value:
                yield from broken_rules(field, value[name])
    if isinstance(value, list):
        for item in value:
            yield from broken_rules(schema["items"], item)


def repeated(schema: dict[str, Any], value: Any) -> Iterator[str]:
    """Duplicates in lists that are sets or maps."""
    kind = schema.get("x-kubernetes-list-type")
    if isinstance(value, list):
        keys = schema.get("x-kubernetes-list-map-keys", [])
        names = [tuple(item[key] for key in keys) if kind == "map" else item for item in value]
        if kind in {"map", "set"} and len(set(names)) < len(names):
            yield "Duplicate value"
    if isinstance(value, dict):
        for name, field in schema.get("properties", {}).items():
            if name in value:
                yield from repeated(field, value[name])


def refusals(body: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """Why the API server refuses an object; empty when it takes it."""
    stored = defaulted(SCHEMA, body)
    problems = [error.message for error in KNOWN.iter_errors(stored)]
    if problems:
        return problems
    before = None if old is None else defaulted(SCHEMA, old)
    return [*repeated(SCHEMA, stored), *broken_rules(SCHEMA, stored, before)]


def scaler(**spec: Any) -> dict[str, Any]:
    """A good CacheAwareScaler, with parts of its spec replaced."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    return {
        "apiVersion": "cacheaware.dev/v1alpha1",
        "kind": "CacheAwareScaler",
        "metadata": {"name": "chat", "namespace": "llm"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 10, **spec},
    }


@pytest.fixture(name="refusals", scope="session")
def fixture_refusals() -> Callable[..., list[str]]:
    return refusals


@pytest.fixture(name="scaler", scope="session")
def fixture_scaler() -> Callable[..., dict[str, Any]]:
    return scaler


@pytest.fixture(name="stored", scope="session")
def fixture_stored() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """An object as the API server would give it back."""
    return lambda body: pruned(SCHEMA, defaulted(SCHEMA, body))
