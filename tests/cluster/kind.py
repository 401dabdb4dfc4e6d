"""A cluster in a container: kind, where a container engine runs."""

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import programs
from tests.cluster.cache import cache_folder
from tests.cluster.engine import Engine
from tests.cluster.errors import ClusterError
from tests.cluster.shell import run, say, succeeds

WAIT = "180s"


@dataclass(frozen=True)
class KindCluster:
    """The cluster of one checkout; its name carries the checkout, so two don't collide.

    Attributes:
        checkout: the folder it belongs to.
        engine: what its node runs in.
    """

    checkout: Path
    engine: Engine
    way: str = field(default="kind", init=False)

    @property
    def name(self) -> str:
        """Of the kind cluster."""
        return f"cacheaware-{hashlib.sha256(str(self.checkout).encode()).hexdigest()[:6]}"

    def up(self) -> Path:
        """Brings the cluster up, or finds it up; returns the kubeconfig."""
        if self._exists():
            if self._serves():
                return self._file
            say(f"{self.name} doesn't answer: making it anew")
            self.down()
        say(f"creating {self.name} with kind in {self.engine.name} {self.engine.version}")
        try:
            self._kind(
                *("create", "cluster", "--name", self.name, "--wait", WAIT),
                *("--kubeconfig", str(self._file)),
            )
        except ClusterError:
            self.down()
            raise
        return self._file

    def down(self) -> None:
        """Removes the cluster; harmless where there is none."""
        self._kind("delete", "cluster", "--name", self.name, "--kubeconfig", str(self._file))
        self._file.unlink(missing_ok=True)

    def load(self, archives: dict[str, Path]) -> None:
        """Puts images, each an archive in Docker's format, into the node."""
        for image, archive in archives.items():
            say(f"loading {image}")
            self._kind("load", "image-archive", str(archive), "--name", self.name)

    def kubeconfig(self) -> Path:
        """The kubeconfig of the running cluster.

        Raises:
            ClusterError: none runs.
        """
        if not (self._exists() and self._serves()):
            raise ClusterError("no cluster is up; `make cluster-up` makes one")
        return self._file

    def status(self) -> dict[str, object]:
        """Whether it serves, and where it is."""
        if not self._exists():
            return {"way": self.way, "up": False}
        return {
            "way": self.way,
            "up": self._serves(),
            "kubeconfig": str(self._file),
            "name": self.name,
            "engine": f"{self.engine.name} {self.engine.version}",
        }

    def identity(self) -> str:
        """A word that another start of the cluster doesn't share: the node container's id."""
        return run(
            self.engine.name, "inspect", "--format", "{{.Id}}", f"{self.name}-control-plane"
        ).strip()

    @property
    def _file(self) -> Path:
        return cache_folder() / f"{self.name}.kubeconfig"

    def _exists(self) -> bool:
        return self.name in self._kind("get", "clusters").split()

    def _serves(self) -> bool:
        if not self._file.exists():
            self._kind("export", "kubeconfig", "--name", self.name, "--kubeconfig", str(self._file))
        return succeeds(
            programs.kubectl(), "--kubeconfig", self._file, "get", "--raw", "/readyz", timeout_s=15
        )

    def _kind(self, *argv: str) -> str:
        provider = {"KIND_EXPERIMENTAL_PROVIDER": self.engine.name}
        return run(programs.kind(), *argv, env={**os.environ, **provider})
