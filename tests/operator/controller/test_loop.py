"""The operator runs on uvloop, and without it as well."""

import asyncio
import sys

import pytest

from cacheaware.controller import loop


async def kind():
    return type(asyncio.get_running_loop()).__module__


def test_it_runs_on_uvloop_where_that_is_installed():
    pytest.importorskip("uvloop")
    assert loop.run(kind()).startswith("uvloop")


def test_without_uvloop_it_runs_on_asyncios_loop(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop.run(kind()).startswith("asyncio")
