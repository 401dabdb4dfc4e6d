"""The chart, rendered in this process: no helm binary is needed."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from helm_python import Chart

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "cacheaware"
CI_FILES = sorted((CHART / "ci").glob("*-values.yaml"))
IMAGE = {"image": {"repository": "docker.io/cacheaware/operator"}}

Objects = list[dict[str, Any]]


class StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice: the API server would drop one of them."""


def refuse_twins(loader: StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key) for key, _ in node.value]
    twins = {key for key in keys if keys.count(key) > 1}
    assert not twins, f"twice in one mapping: {twins}"
    return loader.construct_mapping(node, deep=True)


StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, refuse_twins)


def load_all(text: str) -> Objects:
    return [d for d in yaml.load_all(text, Loader=StrictLoader) if d]


@pytest.fixture(scope="session")
def chart() -> Iterator[Chart]:
    with Chart.load(CHART) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def chart_path() -> Path:
    return CHART


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def objects(chart: Chart) -> Callable[..., Objects]:
    """Renders the chart with the image set: `objects({"rbac": {...}}, "Deployment")`."""

    def render(values: dict[str, Any] | None = None, kind: str | None = None) -> Objects:
        pages = chart.render({**IMAGE, **(values or {})}, name="demo", namespace="cacheaware")
        found = [
            o for name, page in pages.items() if name.endswith(".yaml") for o in load_all(page)
        ]
        return [o for o in found if kind in (None, o["kind"])]

    return render


@pytest.fixture(params=CI_FILES, ids=lambda path: path.name)
def ci_values(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The values of each file in ci/."""
    return yaml.safe_load(request.param.read_text())


@pytest.fixture(scope="session")
def program() -> Callable[[str], ModuleType]:
    """Loads a program that is no package, by its path in the repository."""

    def load(path: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
