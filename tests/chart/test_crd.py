"""The CustomResourceDefinition goes into the chart as it was generated."""

import pytest
import yaml

from cacheaware.names import GROUP, PLURAL


@pytest.fixture(scope="module")
def generated(root):
    return (root / "manifests" / "crd.yaml").read_text()


def test_the_charts_copy_is_the_generated_file(generated, chart_path):
    assert (chart_path / "files" / "crd.yaml").read_text() == generated


def test_the_chart_changes_nothing_but_labels_and_annotations(objects, generated):
    (crd,) = objects(kind="CustomResourceDefinition")
    source = yaml.safe_load(generated)
    assert crd["metadata"]["name"] == f"{PLURAL}.{GROUP}"
    assert crd["spec"] == source["spec"]
    assert crd["apiVersion"] == source["apiVersion"]


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "not kept"])
def test_the_crd_outlives_the_release_when_asked(objects, keep):
    (crd,) = objects({"crds": {"keep": keep}}, "CustomResourceDefinition")
    policy = crd["metadata"].get("annotations", {}).get("helm.sh/resource-policy")
    assert policy == ("keep" if keep else None)


def test_keeping_is_the_default_because_objects_of_users_go_with_the_crd(objects):
    (crd,) = objects(kind="CustomResourceDefinition")
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_the_crd_can_be_left_to_others(objects):
    assert objects({"crds": {"install": False}}, "CustomResourceDefinition") == []


def test_helm_upgrades_the_crd_because_it_is_a_template(chart):
    assert chart.crds == []


def test_big_integers_stay_integers(chart):
    pages = chart.render({"image": {"repository": "r/o"}}, name="demo", namespace="cacheaware")
    page = next(text for name, text in pages.items() if name.endswith("/crd.yaml"))
    assert "e+0" not in page


def test_the_crd_is_small_enough_for_a_client_side_apply(generated):
    assert len(generated) < 262_144 / 2
