"""Manifests may hold anything; what does not fit is told with its place."""

from datetime import date

import pytest

from cacheaware.workload.shape import misfit


def pod(**spec):
    return {"metadata": {"name": "x"}, "spec": {"template": {"spec": spec}}}


def container(**fields):
    return pod(containers=[{"name": "engine", **fields}])


def rolling(**bounds):
    return {"spec": {"strategy": {"rollingUpdate": bounds}}}


NUMBER = "a whole number from 0 to 2147483647"
BOUND = 'a whole number from 0 on or a share such as "25%"'
PORT = "spec.template.spec.containers[0].ports[0].containerPort"


@pytest.mark.parametrize(
    "body",
    [
        {},
        rolling(maxSurge=0, maxUnavailable="25%"),
        {"metadata": {"annotations": {"since": date(2026, 1, 1)}}},
        pod(terminationGracePeriodSeconds=None),
        container(startupProbe={"periodSeconds": 0}),
        pod(),
        pod(containers=None, volumes=[], hostNetwork=True),
        container(env=[{"name": "A", "value": 1}], args=["a", 1, 1.5, True], ports=[{}]),
        container(lifecycle={"preStop": {"sleep": {"seconds": 3}}}, resources={"limits": {"a": 1}}),
    ],
)
def test_what_fits_is_not_told(body):
    assert misfit(body) is None


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ([], "the object is []: allowed is a mapping"),
        ({"metadata": "x"}, "metadata is 'x': allowed is a mapping"),
        (pod(containers={}), "spec.template.spec.containers is {}: allowed is a list"),
        (pod(containers=["a"]), "spec.template.spec.containers[0] is 'a': allowed is a mapping"),
        (pod(containers=[{}]), "spec.template.spec.containers[0].name is None: allowed is a name"),
        (container(name=""), "spec.template.spec.containers[0].name is '': allowed is a name"),
        (container(args="a"), "spec.template.spec.containers[0].args is 'a': allowed is a list"),
        (pod(initContainers=[{"name": "a", "args": [None]}]),
         "spec.template.spec.initContainers[0].args[0] is None: allowed is text"),
        (container(ports=[{"hostPort": "x"}]),
         f"spec.template.spec.containers[0].ports[0].hostPort is 'x': allowed is {NUMBER}"),
        (container(ports=[{"containerPort": True}]),
         f"{PORT} is True: allowed is {NUMBER}"),
        (container(ports=[{"containerPort": 2**31}]),
         f"{PORT} is 2147483648: allowed is {NUMBER}"),
        (container(startupProbe={"periodSeconds": "10"}),
         "spec.template.spec.containers[0].startupProbe.periodSeconds is '10': allowed is "
         + NUMBER),
        (pod(terminationGracePeriodSeconds="600"),
         f"spec.template.spec.terminationGracePeriodSeconds is '600': allowed is {NUMBER}"),
        (pod(terminationGracePeriodSeconds=-1),
         f"spec.template.spec.terminationGracePeriodSeconds is -1: allowed is {NUMBER}"),
        (pod(automountServiceAccountToken="false"),
         "spec.template.spec.automountServiceAccountToken is 'false': allowed is true or false"),
        ({"spec": {"replicas": "2"}}, f"spec.replicas is '2': allowed is {NUMBER}"),
        (rolling(maxSurge="1"),
         f"spec.strategy.rollingUpdate.maxSurge is '1': allowed is {BOUND}"),
        (container(resources={"limits": {"cpu": []}}),
         "spec.template.spec.containers[0].resources.limits.cpu is []: allowed is text"),
    ],
)  # fmt: skip
def test_the_first_misfit_is_told_with_its_place(body, told):
    assert misfit(body) == told


def test_a_long_value_is_cut():
    assert "..." in misfit(container(args="a" * 99))
    assert len(misfit(container(args="a" * 99))) < 150
