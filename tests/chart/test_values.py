"""The values: closed, documented, hardened by default; a typo gets a word that helps."""

import json

import pytest
import yaml
from helm_python import HelmRenderError, HelmValuesError

KUBERNETES_OWNS = {
    # open objects, because Kubernetes says what goes in
    "podSecurityContext",
    "securityContext",
    "resources",
    "affinity",
    "tolerations[]",
    "topologySpreadConstraints[]",
    "extraEnv[]",
    "networkPolicy.ingressFrom[]",
    "networkPolicy.extraEgress[]",
    "global",
}
MAPS_OF_STRINGS = {
    "commonLabels",
    "serviceAccount.annotations",
    "podAnnotations",
    "podLabels",
    "nodeSelector",
    "service.annotations",
    "podMonitor.labels",
    "serviceMonitor.labels",
}


@pytest.fixture(scope="module")
def schema(chart_path):
    return json.loads((chart_path / "values.schema.json").read_text())


def nodes(schema, path=""):
    """(path, schema) of every level; `[]` stands for the items of a list."""
    yield path, schema
    for key, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{key}".lstrip("."))
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


def test_the_schema_is_closed_at_every_level_that_is_ours(schema):
    for path, node in nodes(schema):
        if node.get("type") != "object" or path in KUBERNETES_OWNS:
            continue
        if path in MAPS_OF_STRINGS:
            assert node["additionalProperties"] == {"type": "string"}, path
        else:
            assert node["additionalProperties"] is False, path


def test_the_open_places_are_the_ones_listed(schema):
    paths = {path for path, _ in nodes(schema)}
    assert paths >= KUBERNETES_OWNS | MAPS_OF_STRINGS


def test_every_value_has_a_schema_and_every_schema_a_value(schema, chart):
    def keys(values, node, path=""):
        if "properties" not in node:
            return
        ours = set(node["properties"]) - {"global"}
        assert set(values) == ours, path
        for key in ours:
            if isinstance(values[key], dict):
                keys(values[key], node["properties"][key], f"{path}.{key}")

    keys(chart.values, schema)


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"imagee": {}}, "imagee"),
        ({"image": {"repo": "x"}}, "repo"),
        ({"watch": {"namespace": "x"}}, "namespace"),
        ({"watch": {"namespaces": "x"}}, "namespaces"),
        ({"watch": {"namespaces": ["Not_A_Namespace"]}}, "namespaces"),
        ({"settings": {"roundSecond": 5}}, "roundSecond"),
        ({"settings": {"roundSeconds": 0}}, "roundSeconds"),
        ({"settings": {"logLevel": "loud"}}, "logLevel"),
        ({"settings": {"port": 80}}, "port"),
        ({"rbac": {"engineSecrets": [{"name": "x"}]}}, "engineSecrets"),
        (
            {"rbac": {"extraScaleTargets": [{"apiGroup": "a.b", "resource": "x/scale"}]}},
            "extraScaleTargets",
        ),
        ({"crds": {"kept": True}}, "kept"),
        ({"podMonitor": {"enabled": "yes"}}, "podMonitor"),
        ({"networkPolicy": {"apiServerCIDRs": ["10.0.0.1"]}}, "apiServerCIDRs"),
        ({"image": {"digest": "sha256:12"}}, "digest"),
        ({"terminationGracePeriodSeconds": 5}, "terminationGracePeriodSeconds"),
        ({"replicas": 2}, "replicas"),
    ],
    ids=str,
)
def test_a_typo_or_an_absurd_value_is_refused_by_name(chart, values, where):
    with pytest.raises(HelmValuesError, match=where):
        chart.validate_schema(values)


def test_global_values_of_a_parent_chart_are_let_through(chart):
    chart.validate_schema({"global": {"imageRegistry": "registry.example.com"}})


def test_every_ci_file_fits_the_schema(chart, ci_values):
    chart.validate_schema(ci_values)


def test_without_an_image_the_message_says_what_to_do(chart):
    with pytest.raises(
        HelmRenderError, match=r"image\.repository is empty.*--set image\.repository=.*make images"
    ):
        chart.render({}, name="demo", namespace="cacheaware")


def test_the_table_in_the_readme_is_new(program, chart_path):
    assert program("charts/values_table.py").main(chart_path, check=True) == 0


def test_the_table_names_every_value_once(program, chart_path):
    table = program("charts/values_table.py").table((chart_path / "values.yaml").read_text())
    named = [line.split("`")[1] for line in table.splitlines()[2:]]
    assert len(named) == len(set(named))
    assert {"image.repository", "watch.namespaces", "networkPolicy.extraEgress"} <= set(named)


VALUES = """
image:
  # -- Where it is;
  # see there | here
  repository: ""
# -- All of it
resources:
  limits: {memory: 1Gi}
"""


def test_the_table_program_reads_comments_and_defaults(program):
    assert program("charts/values_table.py").table(VALUES).splitlines()[2:] == [
        '| `image.repository` | `""` | Where it is; see there \\| here |',
        '| `resources` | `{"limits": {"memory": "1Gi"}}` | All of it |',
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("a:\n  # a remark\n  b: 1\n", "a.b has no"),
        ("a: {}\n", "a has no"),
        ("- a\n", "not a mapping"),
    ],
    ids=["a plain comment is no description", "an empty mapping", "a list"],
)
def test_the_table_program_refuses_a_value_without_a_word(program, values, message):
    with pytest.raises(ValueError, match=message):
        program("charts/values_table.py").table(values)


def test_the_table_program_writes_and_checks(program, tmp_path, capsys):
    module = program("charts/values_table.py")
    (tmp_path / "values.yaml").write_text(VALUES)
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{module.BEGIN}\n{module.END}\nafter\n")

    assert module.main(tmp_path, check=True) == 1
    assert "is old" in capsys.readouterr().err
    assert module.main(tmp_path) == 0
    assert module.main(tmp_path, check=True) == 0
    assert readme.read_text().startswith("before\n")
    assert readme.read_text().endswith("after\n")


def test_the_table_program_wants_its_marks(program):
    with pytest.raises(ValueError, match="lacks the marks"):
        program("charts/values_table.py").with_table("nothing", VALUES)


def test_the_chart_is_the_version_of_the_project(chart, root):
    import tomllib

    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    assert (chart.version, chart.metadata["appVersion"]) == (version, version)


def test_the_example_for_the_hub_is_a_scaler(chart):
    (example,) = yaml.safe_load(chart.metadata["annotations"]["artifacthub.io/crdsExamples"])
    assert (example["apiVersion"], example["kind"]) == (
        "cacheaware.dev/v1alpha1",
        "CacheAwareScaler",
    )


def test_the_defaults_are_the_operators_own(chart):
    from cacheaware.settings import Settings

    ours, settings = Settings(), chart.values["settings"]
    assert settings["roundSeconds"] == ours.round_seconds
    assert settings["nodeSeconds"] == ours.node_seconds
    assert settings["scrapeConcurrency"] == ours.scrape_concurrency
    assert settings["port"] == ours.port
    assert settings["logLevel"].upper() == ours.log_level


@pytest.mark.parametrize("edge", ["minimum", "maximum"])
def test_what_the_schema_allows_the_operator_accepts(schema, edge):
    from cacheaware.settings import from_environment

    bounds = schema["properties"]["settings"]["properties"]
    words = {"logFormat": "LOG_FORMAT", "logLevel": "LOG_LEVEL"}
    for key, name in words.items():
        for word in bounds[key]["enum"]:
            from_environment({f"CACHEAWARE_{name}": word})
    numbers = {
        "roundSeconds": "ROUND_SECONDS",
        "nodeSeconds": "NODE_SECONDS",
        "scrapeConcurrency": "SCRAPE_CONCURRENCY",
        "port": "PORT",
    }
    from_environment(
        {f"CACHEAWARE_{name}": str(bounds[key][edge]) for key, name in numbers.items()}
    )


def test_every_variable_of_the_chart_is_read_by_the_operator(objects, root):
    (deployment,) = objects(kind="Deployment")
    env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    source = (root / "operator" / "cacheaware" / "settings.py").read_text()
    assert [e["name"] for e in env if e["name"].removeprefix("CACHEAWARE_") not in source] == []
