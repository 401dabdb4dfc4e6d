"""`cacheaware run`."""

import logging

import pytest
from tests.operator.cli.conftest import example, ran

from cacheaware.cli import main


@pytest.fixture(autouse=True)
def keep_logging():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_bad_setting_is_one_line_and_code_2(capsys, monkeypatch):
    monkeypatch.setenv("CACHEAWARE_PORT", "http")
    with pytest.raises(SystemExit) as end:
        main(["run"])
    assert end.value.code == 2
    allowed = "allowed: a whole number from 1 to 65535"
    assert capsys.readouterr().err == f"cacheaware: CACHEAWARE_PORT='http': {allowed}\n"


@pytest.mark.parametrize("code", [0, 1])
def test_it_ends_with_the_operators_exit_code(monkeypatch, code):
    async def operator(settings):
        assert settings.log_format == "json"
        return code

    monkeypatch.setenv("CACHEAWARE_LOG_FORMAT", "json")
    monkeypatch.setattr("cacheaware.controller.app.main", operator)
    with pytest.raises(SystemExit) as end:
        main(["run"])
    assert end.value.code == code


def test_the_example_of_the_help_runs(capsys, monkeypatch):
    async def operator(settings):
        assert settings.log_format == "json"
        return 0

    monkeypatch.setenv("CACHEAWARE_LOG_FORMAT", "json")
    monkeypatch.setattr("cacheaware.controller.app.main", operator)
    assert ran(capsys, *example("run"))[0] == 0
