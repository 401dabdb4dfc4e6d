from pathlib import Path

import pytest
from tests.cluster.errors import ClusterError
from tests.cluster.source import cgroups, mounts

MOUNTINFO = """\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 21 0:40 / /var/lib/cluster/0/data/kubelet/pods/a/token rw - tmpfs tmpfs rw
31 30 0:41 / /var/lib/cluster/0/data/kubelet/pods/a/token/deep\\040er rw - tmpfs tmpfs rw
32 21 0:42 / /var/lib/cluster/01/other rw - tmpfs tmpfs rw
"""


def test_mounts_of_a_folder_come_innermost_first():
    token = Path("/var/lib/cluster/0/data/kubelet/pods/a/token")
    assert mounts.below(Path("/var/lib/cluster/0"), MOUNTINFO) == [token / "deep er", token]


def test_a_folder_with_a_mount_that_stays_is_not_deleted(monkeypatch, tmp_path):
    (tmp_path / "precious").touch()
    monkeypatch.setattr(mounts, "below", lambda folder: [tmp_path / "volume"])
    monkeypatch.setattr(mounts, "run", lambda *argv: "")
    with pytest.raises(ClusterError, match="still mounted"):
        mounts.remove_tree(tmp_path)
    assert (tmp_path / "precious").exists()


def test_only_links_into_the_folder_are_deleted(tmp_path):
    state, place = tmp_path / "state", tmp_path / "containers"
    place.mkdir()
    (place / "ours.log").symlink_to(state / "log" / "pods" / "0.log")
    (place / "theirs.log").symlink_to("/var/log/pods/0.log")
    (place / "file.log").touch()
    mounts.remove_links_into(state, place)
    assert sorted(path.name for path in place.iterdir()) == ["file.log", "theirs.log"]
    mounts.remove_links_into(state, tmp_path / "absent")


def test_only_files_about_the_folder_are_deleted(tmp_path):
    place = tmp_path / "results"
    place.mkdir()
    (place / "ours").write_text('{"sandbox": "/var/lib/cluster/1/netns/a"}')
    (place / "theirs").write_text('{"sandbox": "/var/lib/cluster/10/netns/a"}')
    mounts.remove_files_about(Path("/var/lib/cluster/1"), place)
    assert [path.name for path in place.iterdir()] == ["theirs"]
    mounts.remove_files_about(Path("/var/lib/cluster/1"), tmp_path / "absent")


def test_hierarchies_of_both_versions_are_found():
    table = """\
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
tmpfs /sys/fs/cgroup tmpfs rw 0 0
"""
    expected = [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/unified")]
    assert cgroups.hierarchies(table) == expected
