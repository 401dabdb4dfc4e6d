"""Which way this machine makes a cluster: kind where a container engine runs, else from source."""

import os
from pathlib import Path
from typing import Protocol

from tests.cluster.engine import running_engine
from tests.cluster.errors import ClusterError
from tests.cluster.kind import KindCluster
from tests.cluster.source.cluster import SourceCluster, obstacles

CHECKOUT = Path(__file__).resolve().parents[2]
WAY = "CACHEAWARE_CLUSTER"
WAYS = ("kind", "source")


class Cluster(Protocol):
    """What both ways can do."""

    @property
    def way(self) -> str:
        """ "kind" or "source"."""

    def up(self) -> Path:
        """Brings the cluster up, or finds it up; returns the kubeconfig."""

    def down(self) -> None:
        """Removes the cluster; harmless where there is none."""

    def load(self, archives: dict[str, Path]) -> None:
        """Puts images, each an archive in Docker's format, into the cluster."""

    def kubeconfig(self) -> Path:
        """The kubeconfig of the running cluster; ClusterError if none runs."""

    def status(self) -> dict[str, object]:
        """Facts for a person: at least `way` and `up`."""

    def identity(self) -> str:
        """A word that another start of the cluster doesn't share."""


def choose(checkout: Path = CHECKOUT, way: str | None = None) -> Cluster:
    """The way that works here.

    Args:
        checkout: whose cluster it is.
        way: forces one; default is the variable CACHEAWARE_CLUSTER, and without it what works.

    Raises:
        ClusterError: neither works, or the forced one doesn't; everything missing is named.
    """
    wish = way or os.environ.get(WAY, "")
    if wish and wish not in WAYS:
        raise ClusterError(f"{WAY}: {wish!r} is not one of {', '.join(WAYS)}")
    engine, silent = (None, []) if wish == "source" else running_engine()
    if engine:
        return KindCluster(checkout, engine)
    missing = obstacles()
    if wish != "kind" and not missing:
        return SourceCluster(checkout)
    reasons = [f"kind needs a container engine: {'; '.join(silent)}"] if silent else []
    if wish != "kind":
        reasons.append(f"from source needs {', '.join(missing)}")
    raise ClusterError("no cluster can be made here: " + ". ".join(reasons))
