"""Removes what containers and the kubelet mounted below the cluster's folder, then the folder.

The order is what matters: deleting a folder with something still mounted in it would delete the
files of whatever that is.
"""

import re
import shutil
from pathlib import Path

from tests.cluster.errors import ClusterError
from tests.cluster.shell import run


def below(folder: Path, mountinfo: str | None = None) -> list[Path]:
    """The mount points in a folder, the innermost first."""
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    points = [Path(_unescaped(line.split()[4])) for line in text.splitlines()]
    return sorted((p for p in points if folder in p.parents), reverse=True)


def remove_tree(folder: Path) -> None:
    """Unmounts all that is mounted in a folder and deletes it.

    Raises:
        ClusterError: something stays mounted; then nothing is deleted.
    """
    if points := below(folder):
        run("umount", "--lazy", *points)
    if left := below(folder):
        raise ClusterError(f"still mounted, so {folder} stays: {', '.join(map(str, left))}")
    if folder.exists():
        shutil.rmtree(folder)


def remove_links_into(folder: Path, place: Path) -> None:
    """Deletes the symbolic links of `place` that point into `folder`."""
    links = list(place.iterdir()) if place.is_dir() else []
    for link in links:
        if link.is_symlink() and folder in link.readlink().parents:
            link.unlink()


def remove_files_about(folder: Path, place: Path) -> None:
    """Deletes the files of `place` whose text names something in `folder`."""
    files = [file for file in place.iterdir() if file.is_file()] if place.is_dir() else []
    for file in files:
        if f"{folder}/" in file.read_text(errors="replace"):
            file.unlink()


def _unescaped(path: str) -> str:
    """The kernel writes blanks and backslashes as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)
