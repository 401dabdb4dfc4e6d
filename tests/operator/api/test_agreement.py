"""Whatever the models take, the API server takes, and the other way round."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from cacheaware.api.crd import openapi_schema
from cacheaware.api.models import CacheAwareScaler

SPEC = openapi_schema()["properties"]["spec"]
ODD = st.sampled_from([None, True, "", "x", -1, 0, 1.5, 3.0, 10**12, [], {}, ["x"], [1, 1]])
TEXTS = {
    "apiVersion": ["apps/v1", "v1", "apps", "leaderworkerset.x-k8s.io/v1", "apps/v1\n", "Apps/v1"],
    "kind": ["Deployment", "CacheAwareScaler", "LeaderWorkerSet"],
    "name": ["chat", "Chat", "a.b", "-a", "a" * 253],
    "key": ["token", "a b", ".x"],
    "value": ["chat", ""],
    "metric": ["queue", "vllm:queue", "a b", "1x"],
    "url": ["http://gateway:9090/metrics", "https://[::1]/m?a=b", "ftp://x/metrics", "http://a b"],
    "cron": ["0 8 * * 1-5", "0 8 * *", "a b c d e", "0  8 * * *", "* * * * * *"],
    "timeZone": ["UTC", "Europe/Berlin", "a b", "/x", "Etc/GMT+1"],
    "path": ["/metrics", "metrics", "/a?b", "/ä", "/"],
}


def value_of(name: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Mostly good values of a schema, some just beyond its bounds, some odd."""
    if "enum" in schema:
        good = st.sampled_from([*schema["enum"], schema["enum"][0].lower()])
    elif schema["type"] == "integer":
        low, high = schema["minimum"], schema["maximum"]
        small = st.integers(low, min(high, low + 120))
        edge = st.sampled_from([low - 1, low, high, high + 1, float(low)])
        good = st.one_of(small, small, small, edge)
    elif schema["type"] == "string":
        good = st.sampled_from(TEXTS[name]) | st.text(max_size=4)
    elif schema["type"] == "array":
        good = st.lists(value_of(name, schema["items"]), max_size=4)
    else:
        good = object_of(schema)
    return st.one_of(good, good, good, good, good, good, good, ODD)


def object_of(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    values = {name: value_of(name, child) for name, child in schema["properties"].items()}
    required = {name: values[name] for name in schema.get("required", [])}
    rest = {name: one for name, one in values.items() if name not in required}
    return st.fixed_dictionaries(required, optional=rest)


TARGETS = object_of(SPEC["properties"]["scaleTargetRef"]) | st.just(
    {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
)
PARTS = {name: value_of(name, child) for name, child in SPEC["properties"].items()}


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """A spec with a few fields set, so that many are wholly good."""
    names = draw(st.sets(st.sampled_from(sorted(PARTS)), max_size=3))
    spec = {"scaleTargetRef": draw(TARGETS), "maxReplicas": draw(st.integers(1, 200))}
    return spec | {name: draw(PARTS[name]) for name in sorted(names)}


@settings(max_examples=600, deadline=None)
@given(spec=specs())
@example(spec={"scaleTargetRef": {"apiVersion": "v1", "kind": "A", "name": "a"}, "maxReplicas": 1})
def test_the_models_and_the_api_server_agree(refusals, scaler, spec):
    body = scaler(**spec)
    try:
        CacheAwareScaler.model_validate(body)
        taken = True
    except ValidationError:
        taken = False

    assert taken is (refusals(body) == [])


@settings(max_examples=100, deadline=None)
@given(spec=specs())
def test_what_is_read_reads_the_same_when_written_again(spec, scaler):
    try:
        model = CacheAwareScaler.model_validate(scaler(**spec))
    except ValidationError:
        return
    again = model.spec.model_dump(exclude_unset=True)

    assert CacheAwareScaler.model_validate(scaler(**again)).spec == model.spec
