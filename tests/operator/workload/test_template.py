"""Workloads and their pod templates, as manifests hold them."""

import pytest

from cacheaware.workload.template import below, workload_of

POD = {"spec": {"containers": [{"name": "engine"}]}}
LWS = "leaderworkerset.x-k8s.io/v1"


def body(kind="Deployment", api="apps/v1", **spec):
    meta = {"name": "chat", "namespace": "models"}
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_template_is_the_documents_own(kind):
    document = body(kind, template=POD, replicas=3)
    found = workload_of(document)

    assert found.template is document["spec"]["template"]
    assert (str(found), found.namespace, found.replicas) == (f"{kind.lower()}/chat", "models", 3)
    assert not found.leads_by_worker_template


def test_the_leader_of_a_group_has_a_template_of_its_own():
    group = {"leaderTemplate": POD, "workerTemplate": {"spec": {"containers": []}}}
    found = workload_of(body("LeaderWorkerSet", LWS, leaderWorkerTemplate=group))

    assert found.template is POD
    assert not found.leads_by_worker_template


@pytest.mark.parametrize("leader", [{}, {"leaderTemplate": None}])
def test_without_one_the_leader_is_made_like_a_worker(leader):
    group = {**leader, "workerTemplate": POD}
    found = workload_of(body("LeaderWorkerSet", LWS, leaderWorkerTemplate=group))

    assert found.template is POD
    assert found.leads_by_worker_template


@pytest.mark.parametrize(
    "document",
    [
        None,
        "text",
        ["a list"],
        body("Service", "v1"),
        body("Deployment", "v1", template=POD),
        body("Deployment", "extensions/v1beta1", template=POD),
        body("LeaderWorkerSet", "apps/v1", leaderWorkerTemplate={"workerTemplate": POD}),
        body(),
        body(template=None),
        body(template={"spec": "text"}),
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": None},
        body("LeaderWorkerSet", LWS, leaderWorkerTemplate={}),
    ],
)
def test_what_is_none_of_these_is_no_workload(document):
    assert workload_of(document) is None


@pytest.mark.parametrize("meta", [None, "text", {}, {"name": None}])
def test_a_name_may_be_missing(meta):
    found = workload_of({**body(template=POD), "metadata": meta})

    assert (found.name, found.namespace) == ("", None)


@pytest.mark.parametrize("replicas", [None, "3", True])
def test_replicas_that_are_no_number_are_unknown(replicas):
    assert workload_of(body(template=POD, replicas=replicas)).replicas is None


def test_containers_that_are_none_are_left_out():
    spec = {"containers": ["text", {"name": "a"}], "initContainers": {"name": "b"}}
    found = workload_of(body(template={"spec": spec}))

    assert found.containers == [{"name": "a"}]
    assert found.init_containers == found.sidecars == []


def test_sidecars_are_the_init_containers_that_stay():
    native = {"name": "mesh", "restartPolicy": "Always"}
    found = workload_of(body(template={"spec": {"initContainers": [{"name": "once"}, native]}}))

    assert found.sidecars == [native]
    assert found.init_containers == [{"name": "once"}, native]


def test_a_path_ends_where_it_is_no_mapping():
    assert below({"a": {"b": 1}}, ("a", "b")) == 1
    assert below({"a": 1}, ("a", "b", "c")) is None
