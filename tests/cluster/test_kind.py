"""The calls that kind gets; kind itself runs only where a container engine does."""

import shutil

import pytest
from tests.cluster import kind, programs
from tests.cluster.engine import Engine
from tests.cluster.errors import ClusterError
from tests.cluster.kind import KindCluster


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """A kind that keeps its clusters as files and writes down what it was asked."""
    (tmp_path / "clusters").mkdir()
    script = tmp_path / "kind"
    script.write_text(f"""#!/bin/sh
cd {tmp_path}
echo "$KIND_EXPERIMENTAL_PROVIDER: $*" >> calls
case "$1 $2" in
  "get clusters") {shutil.which("ls")} clusters ;;
  "create cluster") : > "clusters/$4"; : > "$8"; [ ! -e broken ] ;;
  "delete cluster") {shutil.which("rm")} -f "clusters/$4" ;;
esac
""")
    script.chmod(0o755)
    monkeypatch.setattr(programs, "kind", lambda: script)
    monkeypatch.setattr(kind, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(kind, "succeeds", lambda *argv, **more: True)
    return tmp_path


def test_up_twice_creates_one_cluster(fake):
    cluster = KindCluster(fake, Engine("podman", "5"))
    assert cluster.up() == cluster.up() == cluster.kubeconfig()
    calls = (fake / "calls").read_text()
    assert calls.count("podman: create cluster") == 1
    assert cluster.status()["up"] is True


def test_down_twice_is_harmless_and_leaves_no_kubeconfig(fake):
    cluster = KindCluster(fake, Engine("docker", "28"))
    path = cluster.up()
    cluster.down()
    cluster.down()
    assert not path.exists()
    assert cluster.status() == {"way": "kind", "up": False}
    with pytest.raises(ClusterError, match="make cluster-up"):
        cluster.kubeconfig()


def test_a_cluster_that_does_not_answer_is_made_anew(fake, monkeypatch):
    cluster = KindCluster(fake, Engine("docker", "28"))
    cluster.up()
    monkeypatch.setattr(kind, "succeeds", lambda *argv, **more: False)
    cluster.up()
    assert (fake / "calls").read_text().count("create cluster") == 2


def test_a_failed_start_leaves_no_cluster(fake):
    (fake / "broken").touch()
    cluster = KindCluster(fake, Engine("docker", "28"))
    with pytest.raises(ClusterError, match="create cluster"):
        cluster.up()
    assert not cluster.status()["up"]


def test_an_image_is_loaded_from_its_archive(fake):
    cluster = KindCluster(fake, Engine("docker", "28"))
    cluster.load({"docker.io/cacheaware/sidecar:dev": fake / "0.tar"})
    assert f"load image-archive {fake}/0.tar --name {cluster.name}" in (fake / "calls").read_text()


def test_two_checkouts_have_two_clusters(tmp_path):
    engine = Engine("docker", "28")
    assert KindCluster(tmp_path / "a", engine).name != KindCluster(tmp_path / "b", engine).name
