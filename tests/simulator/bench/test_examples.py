import doctest
import importlib
import pkgutil

import pytest

from cacheaware_sim import bench

MODULES = [module.name for module in pkgutil.iter_modules(bench.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_the_worked_examples_of_the_docstrings_hold(name):
    module = importlib.import_module(f"cacheaware_sim.bench.{name}")

    assert doctest.testmod(module).failed == 0
