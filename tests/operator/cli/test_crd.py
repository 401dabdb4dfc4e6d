"""`cacheaware crd`."""

import json
import sys

import pytest
import yaml
from tests.operator.cli.conftest import example, ran

from cacheaware import cli
from cacheaware.api.crd import crd
from cacheaware.api.reference import reference


def run(*args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["crd", *args])
    return ended.value.code


def test_it_prints_yaml_for_kubectl(capsys):
    assert run() == 0
    assert yaml.safe_load(capsys.readouterr().out) == crd()


def test_it_prints_json(capsys):
    assert run("-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == crd()


def test_it_prints_the_reference(capsys):
    assert run("--reference") == 0
    assert capsys.readouterr().out == reference()


def test_without_the_extra_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cacheaware.api.reference", None)

    assert run() == 2
    assert "pip install 'cacheaware[operator]'" in capsys.readouterr().err


def test_the_example_of_the_help_runs(capsys):
    assert ran(capsys, *example("crd"))[0] == 0
