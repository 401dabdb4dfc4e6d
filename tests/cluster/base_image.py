"""A Python base image from Debian's packages, for a machine that reaches no image registry.

Two images of one system: the one to build in has venv and its wheels, the one to run on has lost
them, the package manager, documentation and translations.
"""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cache import fingerprint
from tests.cluster.packages import FOR_IMAGES, SYSTEM_PATH, ensure
from tests.cluster.shell import run, say, succeeds

SUITE = "bookworm"
PACKAGES = "ca-certificates,python3,python3-venv"
NOT_TO_RUN = (
    *("python3-venv", "python3.11-venv", "python3-pip-whl", "python3-setuptools-whl"),
    *("python3-distutils", "python3-lib2to3", "apt", "libapt-pkg6.0", "gpgv", "adduser"),
    *("debian-archive-keyring", "sysvinit-utils", "tzdata", "perl-base", "debconf"),
    *("e2fsprogs", "libext2fs2", "logsave"),
)
WASTE = (
    *("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian"),
    *("usr/share/bash-completion", "usr/share/bug", "usr/share/common-licenses"),
    *("var/cache", "var/log", "var/lib/apt"),
)
WASTE_TO_RUN = (
    *("var/lib/dpkg/info", "usr/share/perl5", "usr/share/debconf"),
    *("usr/lib/python3.11/test", "usr/lib/python3.11/pydoc_data", "usr/lib/python3.11/lib2to3"),
)


@dataclass(frozen=True)
class BaseImages:
    """The names of the two images.

    Attributes:
        run: what the finished images stand on.
        build: what their dependencies are installed in.
    """

    run: str
    build: str


def base_images() -> BaseImages:
    """The two images, made once: about a minute."""
    tag = f"{SUITE}-{fingerprint([Path(__file__)])}"
    names = BaseImages(
        f"localhost/cacheaware/python:{tag}", f"localhost/cacheaware/python-build:{tag}"
    )
    if all(succeeds("buildah", "inspect", "--type", "image", n) for n in (names.run, names.build)):
        return names
    ensure(FOR_IMAGES)
    say(f"making a base image of Debian {SUITE}, once (about a minute)")
    root = Path(tempfile.mkdtemp(prefix="cacheaware-base-", dir="/var/tmp"))
    try:
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, root)
        _empty(root, WASTE)
        _commit(root, names.build)
        run("chroot", root, "dpkg", "--purge", "--force-all", *NOT_TO_RUN)
        _empty(root, (*WASTE, *WASTE_TO_RUN))
        _commit(root, names.run)
    finally:
        shutil.rmtree(root)
    return names


def _empty(root: Path, folders: tuple[str, ...]) -> None:
    """Removes the files of folders, and keeps the folders."""
    for folder in folders:
        path = root / folder
        if path.is_dir():
            shutil.rmtree(path)
            path.mkdir()


def _commit(root: Path, image: str) -> None:
    container = run("buildah", "from", "scratch").strip()
    run("buildah", "copy", "--quiet", container, root, "/")
    run("buildah", "config", "--env", f"PATH={SYSTEM_PATH}", container)
    run("buildah", "commit", "--quiet", "--rm", container, image)
