import pytest
from tests.cluster.engine import Engine, running_engine


def program(folder, name: str, script: str):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 28.0.1", Engine("docker", "28.0.1")),
        ("exit 1", None),
        ("echo", None),  # the client's part of the answer comes with exit 0 and no server version
    ],
    ids=["a server answers", "the client fails", "the server is silent"],
)
def test_only_a_servers_answer_proves_an_engine(monkeypatch, tmp_path, script, expected):
    program(tmp_path, "docker", script)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert running_engine()[0] == expected


def test_podman_is_found_behind_a_silent_docker(monkeypatch, tmp_path):
    program(tmp_path, "docker", "exit 1")
    program(tmp_path, "podman", "echo 5.4.0")
    monkeypatch.setenv("PATH", str(tmp_path))
    engine, silent = running_engine()
    assert engine == Engine("podman", "5.4.0")
    assert silent == ["docker is installed, but no server answers `docker info`"]


def test_each_absent_engine_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert running_engine() == (None, ["docker is not installed", "podman is not installed"])
