"""Trace files made for a test."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def written(tmp_path) -> Callable[..., Path]:
    """Writes a file of text or bytes; a name that ends in .gz is compressed."""

    def write(content: str | bytes, name: str = "trace") -> Path:
        path = tmp_path / name
        raw = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return path

    return write
