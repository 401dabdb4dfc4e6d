"""Uninstalling leaves nothing behind."""

import json

import pytest
from tests.e2e.release import Release
from tests.e2e.workload import Fleet, eventually

pytestmark = pytest.mark.e2e

KINDS = (
    "clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,deployments,services,"
    "configmaps,leases,pods"
)


def test_uninstalling_leaves_nothing_behind(fleet: Fleet, release: Release):
    fleet.start(2, engine=("--cold-start", "1"))
    fleet.scale_by(behavior={"scaleDown": {"stabilizationWindowSeconds": 5}})
    fleet.wait_ready(2)
    eventually(lambda: fleet.replicas() == 1, within=60, what="one shrink, with its deletion cost")
    release.install(crds__keep="false")
    release.uninstall()
    try:
        eventually(
            lambda: not ours(fleet), within=20, what="objects of the release outside the fleet gone"
        )
        crds = fleet.cluster.kubectl("get", "crds", "-o", "name")
        assert "cacheaware" not in crds
        for pod in fleet.pods():
            assert not any(
                "cacheaware.dev" in key for key in pod["metadata"].get("annotations", {})
            )
            assert not pod["metadata"].get("finalizers")
        assert not fleet.get("deployment", fleet.name)["metadata"].get("finalizers")
    finally:
        release.install()


def ours(fleet: Fleet) -> list[str]:
    """Objects of the release that are still there, the engines' namespace left out."""
    listed = json.loads(fleet.cluster.kubectl("get", KINDS, "-A", "-o", "json"))
    return [
        f"{item['kind']} {item['metadata']['name']}"
        for item in listed["items"]
        if "cacheaware" in item["metadata"]["name"]
        and item["metadata"].get("namespace") != fleet.namespace
    ]
