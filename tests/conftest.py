"""Fixtures that all tests share."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("patient", parent=settings(), deadline=None)
settings.load_profile("patient")
"""How long one example takes says how busy the machine is."""

SHARED = Path(__file__).parents[2] / "shared"
MISSING = f"{SHARED} is missing: the field cases and public pages lie beside the clone"


def pytest_sessionstart() -> None:
    """Keep asyncio from making a loop of its own, which pytest-asyncio would never close."""
    asyncio.set_event_loop(None)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder ../shared; without it the test skips with a clear word, and in CI it fails."""
    if not SHARED.is_dir():
        if os.environ.get("CI") == "true":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return SHARED


@pytest.fixture(scope="session")
def case(shared: Path) -> Callable[[str, str], Any]:
    """Reads a file of a field case: `case("028", "input.series.json")`; JSON is parsed."""

    def read(number: str, name: str) -> Any:
        (folder,) = (shared / "cases").glob(f"{number}-*")
        text = (folder / name).read_text()
        return json.loads(text) if name.endswith(".json") else text

    return read
