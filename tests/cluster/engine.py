"""Is there a container engine? Only an answer from its server proves it; a binary alone doesn't."""

import shutil
from dataclasses import dataclass

from tests.cluster.errors import ClusterError
from tests.cluster.shell import run


@dataclass(frozen=True)
class Engine:
    """A container engine whose server answered.

    Attributes:
        name: "docker" or "podman", which is also the program's name.
        version: of its server.
    """

    name: str
    version: str


_ASK = {
    "docker": ("docker", "info", "--format", "{{.ServerVersion}}"),
    "podman": ("podman", "info", "--format", "{{.Version.Version}}"),
}


def running_engine() -> tuple[Engine | None, list[str]]:
    """The first engine that answers, and a line for each one that doesn't."""
    silent = list[str]()
    for name, question in _ASK.items():
        if not shutil.which(name):
            silent.append(f"{name} is not installed")
            continue
        try:
            version = run(*question, timeout_s=20).strip()
        except ClusterError:
            version = ""
        if version:
            return Engine(name, version), silent
        silent.append(f"{name} is installed, but no server answers `{name} info`")
    return None, silent
