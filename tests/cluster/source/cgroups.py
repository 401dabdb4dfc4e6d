"""The cgroup below which the kubelet puts its pods, in every hierarchy of the machine.

A cgroup of its own, because a kubelet ends every pod it doesn't know below its root: two clusters
on one machine must not see each other's. It also finds every process of every pod when a crash has
lost all other trace of them.
"""

from pathlib import Path

from tests.cluster.source.plan import Plan

CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")


def create(plan: Plan) -> None:
    """Makes the cgroup; version 1's cpuset needs its parent's processors and memory first."""
    for mount in hierarchies():
        group = mount / plan.name
        group.mkdir(exist_ok=True)
        for name in CPUSET_FILES:
            file = group / name
            if file.exists() and not file.read_text().strip() and (mount / name).exists():
                file.write_text((mount / name).read_text())


def processes(plan: Plan) -> list[int]:
    """The processes of all pods."""
    found = set[int]()
    for group in _groups(plan):
        try:
            found.update(map(int, (group / "cgroup.procs").read_text().split()))
        except OSError:
            continue
    return sorted(found - {0})


def remove(plan: Plan) -> None:
    """Removes the cgroups from the leaves up; one that still holds a process stays."""
    for group in _groups(plan):
        try:
            group.rmdir()
        except OSError:
            continue


def hierarchies(mounts: str | None = None) -> list[Path]:
    """Where cgroups are mounted (versions 1 and 2 may be mixed)."""
    text = Path("/proc/mounts").read_text() if mounts is None else mounts
    rows = [line.split() for line in text.splitlines()]
    return [Path(row[1]) for row in rows if row[2] in {"cgroup", "cgroup2"}]


def _groups(plan: Plan) -> list[Path]:
    """The cluster's cgroups, children before their parents."""
    groups = list[Path]()
    for mount in hierarchies():
        root = mount / plan.name
        if root.is_dir():
            groups += [root, *(path for path in root.rglob("*") if path.is_dir())]
    return sorted(groups, key=lambda path: len(path.parts), reverse=True)
