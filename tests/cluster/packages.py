"""The programs that a distribution has ready-made: found, else installed with apt."""

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import ClusterError
from tests.cluster.shell import run, say

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Need:
    """Something that must be there: a program's name or one of some files, and its apt package."""

    what: str
    package: str

    def present(self) -> bool:
        """Whether it is there; alternatives are separated by a bar."""
        return any(
            Path(choice).exists() if "/" in choice else shutil.which(choice, path=search_path())
            for choice in self.what.split("|")
        )


FOR_NODE = (
    Need("containerd", "containerd"),
    Need("ctr", "containerd"),
    Need("runc", "runc"),
    Need("/usr/lib/cni/bridge|/opt/cni/bin/bridge", "containernetworking-plugins"),
    Need("iptables", "iptables"),
    Need("conntrack", "conntrack"),
    Need("ip", "iproute2"),
    Need("nsenter", "util-linux"),
    Need("openssl", "openssl"),
)
FOR_IMAGES = (
    Need("buildah", "buildah"),
    Need("debootstrap", "debootstrap"),
    Need("/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring"),
)


def search_path() -> str:
    """PATH, and the folders of administrators' programs that it may lack."""
    return f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"


def missing(needs: Iterable[Need]) -> list[Need]:
    """Those that aren't there."""
    return [need for need in needs if not need.present()]


def ensure(needs: Iterable[Need]) -> None:
    """Installs what is missing.

    Raises:
        ClusterError: something is missing and apt can't install it; all of it is named.
    """
    absent = missing(needs)
    if not absent:
        return
    names = sorted({need.package for need in absent})
    wanted = ", ".join(f"{need.what} (Debian: {need.package})" for need in absent)
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise ClusterError(f"missing: {wanted}; only root with apt-get can install them")
    say(f"installing with apt: {' '.join(names)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "update", "-qq", env=quiet)
    run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *names, env=quiet)
    if still := missing(absent):
        raise ClusterError(f"missing after apt-get install: {', '.join(n.what for n in still)}")
