"""The examples in docstrings are true."""

import doctest
import importlib
from pathlib import Path

import pytest

import cacheaware
import cacheaware_sidecar
import cacheaware_sim

PACKAGES = [Path(one.__file__).parent for one in (cacheaware, cacheaware_sidecar, cacheaware_sim)]
MODULES = [
    ".".join(path.relative_to(package.parent).with_suffix("").parts)
    for package in PACKAGES
    for path in sorted(package.rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_say_what_comes_out(name):
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)

    assert found.attempted > 0
    assert found.failed == 0
