"""docs/operator.md names everything that the operator shows, and nothing else."""

import re
from pathlib import Path

import pytest

from cacheaware import settings
from cacheaware.decide.fleet import Unknown
from cacheaware.names import Conditions, Reasons
from cacheaware.telemetry import Metrics

PAGE = (Path(__file__).parents[2] / "docs" / "operator.md").read_text()


def constants(of):
    return {value for name, value in vars(of).items() if name.isupper()}


def table(heading, number=0):
    """The first cells of a section's table."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    tables = re.findall(r"\|[ -]+\|.*\n((?:\|.*\n)+)", section)
    return set(re.findall(r"^\| `([^`]+)` \|", tables[number], re.MULTILINE))


def metric_names():
    names = set()
    for family in Metrics().registry.collect():
        names.add(f"{family.name}_total" if family.type == "counter" else family.name)
    return names


def variables():
    text = Path(settings.__file__).read_text()
    return {f"CACHEAWARE_{name}" for name in re.findall(r'value\(\s*"([A-Z_]+)"', text)} | {
        "CACHEAWARE_POD_NAMESPACE"
    }


@pytest.mark.parametrize(
    ("heading", "number", "names"),
    [
        ("Settings", 0, variables()),
        ("Metrics", 0, metric_names()),
        ("Conditions", 0, constants(Conditions)),
        ("Reasons", 0, constants(Reasons)),
        ("Reasons", 1, {one.value for one in Unknown}),
    ],
    ids=["settings", "metrics", "conditions", "reasons", "unknown"],
)
def test_every_name_is_explained_and_no_other(heading, number, names):
    assert table(heading, number) == names


def test_names_are_unique():
    for of in (Conditions, Reasons):
        values = [value for name, value in vars(of).items() if name.isupper()]
        assert len(values) == len(set(values))
