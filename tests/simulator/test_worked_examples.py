import doctest
import importlib
import pkgutil

import pytest

import cacheaware_sim
from cacheaware_sim import fleet, validate

MODULES = [
    *(f"cacheaware_sim.{one.name}" for one in pkgutil.iter_modules(cacheaware_sim.__path__)),
    *(f"cacheaware_sim.fleet.{one.name}" for one in pkgutil.iter_modules(fleet.__path__)),
    *(f"cacheaware_sim.validate.{one.name}" for one in pkgutil.iter_modules(validate.__path__)),
]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_the_worked_examples_of_the_docstrings_hold(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
