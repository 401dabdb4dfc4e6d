import pytest
from tests.cluster import choice
from tests.cluster.engine import Engine
from tests.cluster.errors import ClusterError
from tests.cluster.kind import KindCluster
from tests.cluster.source.cluster import SourceCluster

DOCKER = Engine("docker", "28.0")
SILENT = ["docker is installed, but no server answers `docker info`", "podman is not installed"]


def machine(monkeypatch, *, engine: Engine | None, missing: list[str]):
    monkeypatch.delenv(choice.WAY, raising=False)
    monkeypatch.setattr(choice, "running_engine", lambda: (engine, [] if engine else SILENT))
    monkeypatch.setattr(choice, "obstacles", lambda: missing)


def test_kind_is_chosen_where_an_engine_answers(monkeypatch, tmp_path):
    machine(monkeypatch, engine=DOCKER, missing=[])
    assert choice.choose(tmp_path) == KindCluster(tmp_path, DOCKER)


def test_a_silent_engine_means_from_source(monkeypatch, tmp_path):
    machine(monkeypatch, engine=None, missing=[])
    assert choice.choose(tmp_path) == SourceCluster(tmp_path)


def test_source_can_be_forced_beside_an_engine(monkeypatch, tmp_path):
    machine(monkeypatch, engine=DOCKER, missing=[])
    monkeypatch.setenv(choice.WAY, "source")
    assert choice.choose(tmp_path) == SourceCluster(tmp_path)


@pytest.mark.parametrize(
    ("wish", "missing", "words"),
    [
        ("", ["root"], ["kind needs a container engine", "no server answers", "source needs root"]),
        ("kind", [], ["kind needs a container engine", "podman is not installed"]),
        ("source", ["root"], ["from source needs root"]),
        ("minikube", [], ["CACHEAWARE_CLUSTER", "'minikube'", "kind, source"]),
    ],
    ids=["neither way", "kind is forced", "source is forced", "an unknown way"],
)
def test_what_is_missing_is_named(monkeypatch, tmp_path, wish, missing, words):
    machine(monkeypatch, engine=None, missing=missing)
    monkeypatch.setenv(choice.WAY, wish)
    with pytest.raises(ClusterError) as error:
        choice.choose(tmp_path)
    assert [word for word in words if word not in str(error.value)] == []
