"""The real cluster, and what tests need on it."""

import os
from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.cluster import choice, images, programs
from tests.cluster.errors import ClusterError
from tests.e2e.real_cluster import RealCluster
from tests.e2e.release import Release
from tests.e2e.workload import Fleet

KEEP = "CACHEAWARE_KEEP_CLUSTER"


@pytest.fixture(scope="session")
def cluster() -> Iterator[RealCluster]:
    """A cluster with the three images, for the whole session.

    One that is up is used and stays; one that the session made goes with it, unless
    CACHEAWARE_KEEP_CLUSTER=1. Where none can be made the test skips, and with CI=true it fails.
    """
    try:
        made = choice.choose()
    except ClusterError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    found = made.status()["up"]
    kubeconfig = made.up()
    try:
        images.load(made, images.build_all())
        yield RealCluster(made.way, kubeconfig, programs.kubectl(), programs.helm())
    finally:
        if not found and os.environ.get(KEEP) != "1":
            made.down()


@pytest.fixture
def namespace(cluster: RealCluster) -> Iterator[str]:
    """A namespace of the test's own; it is gone soon after."""
    name = f"test-{uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@pytest.fixture(scope="session")
def release(cluster: RealCluster) -> Iterator[Release]:
    """The operator, installed from the chart for the whole session."""
    made = Release(cluster)
    made.install()
    yield made
    made.uninstall()


@pytest.fixture
def fleet(release: Release, namespace: str) -> Iterator[Fleet]:
    """Engines of the test's own, watched by the operator; shows its log after a failure."""
    made = Fleet(release.cluster, namespace)
    yield made
    made.end_loads()
