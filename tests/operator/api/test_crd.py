"""The CRD: structural, strict, bounded, and equal to what is committed."""

from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from cacheaware import names
from cacheaware.api.crd import COLUMNS, crd, openapi_schema
from cacheaware.api.reference import reference
from cacheaware.cli.crd import as_yaml

ROOT = Path(__file__).parents[3]
FORBIDDEN = {"$ref", "$defs", "title", "nullable", "anyOf", "oneOf", "const", "uniqueItems"}


def nodes(schema, path=""):
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


def test_the_committed_crd_is_what_the_models_say():
    text = (ROOT / "manifests" / "crd.yaml").read_text()

    assert text == as_yaml(crd()), "run: cacheaware crd > manifests/crd.yaml"
    assert yaml.safe_load(text) == crd()


def test_the_committed_reference_is_what_the_models_say():
    text = (ROOT / "docs" / "cacheawarescaler.md").read_text()

    assert text == reference(), "run: cacheaware crd --reference > docs/cacheawarescaler.md"


@pytest.mark.parametrize("version", ["1.29", "1.33", "1.37"])
def test_the_crd_is_valid_kubernetes(version):
    kubernetes_validate.validate(crd(), version, strict=True)


@pytest.mark.parametrize(("path", "schema"), list(nodes(openapi_schema())))
def test_every_node_is_structural_and_bounded(path, schema):
    assert FORBIDDEN.isdisjoint(schema)
    assert schema.get("additionalProperties") is None
    assert isinstance(schema["type"], str)
    assert schema.get("default", "") is not None
    if schema["type"] == "integer":
        assert schema["format"] in {"int32", "int64"}
    if path.startswith(".spec"):
        bounds = {"string": ("maxLength",), "array": ("maxItems",), "integer": ("maximum",)}
        if "enum" not in schema:
            assert all(bound in schema for bound in bounds.get(schema["type"], ()))
    elif (
        schema["type"] in {"string", "array"}
        and path.startswith(".status.")
        and "enum" not in schema
    ):
        assert "maxLength" in schema or "maxItems" in schema or "items" not in schema


@pytest.mark.parametrize(("path", "schema"), list(nodes(openapi_schema()))[4:])
def test_every_field_is_described(path, schema):
    if not path.endswith(("[]", ".metadata")):
        assert schema["description"].endswith("."), path


def test_rules_have_a_message_and_a_path_to_a_field():
    for path, schema in nodes(openapi_schema()):
        for rule in schema.get("x-kubernetes-validations", []):
            assert rule["message"], path
            assert "{" not in rule["message"], path
            assert "\n" not in rule["message"], path
            assert rule["fieldPath"].startswith("."), path


def test_the_columns_tell_the_story_in_one_line():
    assert [name.upper() for name, *_ in COLUMNS] == [
        "TARGET",
        "MODE",
        "MIN",
        "MAX",
        "CURRENT",
        "DESIRED",
        "STARTING",
        "CORDONED",
        "READY",
        "REASON",
        "AGE",
    ]


def test_the_crd_has_the_projects_names():
    spec = crd()["spec"]

    assert spec["names"]["shortNames"] == [names.SHORT] == ["cas"]
    assert spec["names"]["categories"] == [names.CATEGORY] == ["autoscaling"]
    assert spec["versions"][0]["subresources"] == {"status": {}}


def test_the_crd_fits_into_the_annotation_of_kubectl_apply():
    assert len(as_yaml(crd())) < 200_000


def test_rules_are_of_objects_and_each_names_a_field_that_is_there():
    for path, node in nodes(openapi_schema()):
        for rule in node.get("x-kubernetes-validations", ()):
            assert node["type"] == "object", path
            field = rule.get("fieldPath", "").lstrip(".").split(".")[0]
            assert not field or field in node["properties"], f"{path}: {field}"
