"""GPUs of one replica, and who wrote the replicas."""

import pytest
import yaml

from cacheaware.workload.gpus import gpus_per_replica
from cacheaware.workload.writers import replicas_by


def container(**limits):
    names = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/i915"}
    return {"resources": {"limits": {names.get(k, k): v for k, v in limits.items()}}}


def deployment(*containers, inits=()):
    spec = {"containers": list(containers), "initContainers": list(inits)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": spec}}}


def group(**templates):
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "spec": {"leaderWorkerTemplate": templates},
    }


def pod(*containers):
    return {"spec": {"containers": list(containers)}}


ALWAYS = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("body", "gpus"),
    [
        (deployment(container(nvidia="8")), 8),
        (deployment(container(nvidia=2), container(amd="1"), container(intel="1")), 4),
        (deployment(container(cpu="8")), None),
        (deployment({}), None),
        (deployment(container(**{"gpu.intel.com/memory.max": "9000"})), None),
        (deployment(container(**{"nvidia.com/mig-1g.5gb": "3"})), None),
        (deployment(container(nvidia="2"), inits=[container(nvidia="4")]), 4),
        (deployment(container(nvidia="2"), inits=[container(nvidia="1") | ALWAYS]), 3),
        (group(size=4, workerTemplate=pod(container(nvidia="8"))), 32),
        (
            group(
                size=3,
                leaderTemplate=pod(container(nvidia="1")),
                workerTemplate=pod(container(nvidia="8")),
            ),
            17,
        ),
        (group(workerTemplate=pod(container(nvidia="8"))), 8),
        (group(size=4, leaderTemplate=pod(container(nvidia="8"))), 32),
        ({"apiVersion": "example.com/v1", "kind": "Worker", "spec": {}}, None),
    ],
)
def test_all_that_run_together_count(body, gpus):
    assert gpus_per_replica(body) == gpus


def test_022_a_replica_is_the_whole_group(case):
    body = yaml.safe_load(case("022", "input.lws.yaml"))

    assert gpus_per_replica(body) == case("022", "expect.json")["gpus_per_replica"] == 32


def entry(manager, time, *, owns=True, **more):
    fields = {"f:spec": {"f:replicas": {}} if owns else {"f:template": {}}}
    return {"manager": manager, "time": time, "fieldsV1": fields, **more}


@pytest.mark.parametrize(
    ("entries", "manager"),
    [
        ([], ""),
        ([entry("argocd-controller", "2026-01-01T00:00:00Z")], "argocd-controller"),
        ([entry("cacheaware", "2026-01-01T00:00:09Z", subresource="scale")], ""),
        (
            [
                entry("helm", "2026-01-01T00:00:00Z"),
                entry("kubectl", "2026-01-01T00:00:05Z"),
                entry("cacheaware", "2026-01-01T00:00:09Z"),
                entry("kube-controller-manager", "2026-01-01T00:00:10Z", owns=False),
                {"manager": "odd"},
            ],
            "kubectl",
        ),
    ],
)
def test_the_newest_other_manager_of_the_replicas_is_named(entries, manager):
    assert replicas_by({"metadata": {"managedFields": entries}}) == manager


def test_without_managed_fields_nobody_is_named():
    assert replicas_by({"metadata": {}}) == ""
    assert replicas_by({}) == ""
