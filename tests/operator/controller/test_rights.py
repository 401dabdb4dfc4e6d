"""What the operator asks of the API server is what the chart's roles allow, no less and no more."""

from pathlib import Path

import pytest
import yaml
from helm_python import Chart
from tests.operator.fake_api import Fault

from cacheaware import names

CHART = Path(__file__).parents[3] / "charts" / "cacheaware"
FAST = {
    "behavior": {
        "scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 1}]},
        "scaleDown": {
            "stabilizationWindowSeconds": 0,
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 1}],
        },
    }
}
OTHER_TARGETS = {
    # the same calls on kinds that this test has none of
    ("apps", "statefulsets", "get"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets", "get"),
    *{
        (group, f"{plural}/scale", verb)
        for group, plural in (
            ("apps", "statefulsets"),
            ("apps", "replicasets"),
            ("leaderworkerset.x-k8s.io", "leaderworkersets"),
        )
        for verb in ("get", "patch")
    },
}


def roles(**values):
    """{(group, resource, verb)} of all roles that the chart makes for the operator."""
    with Chart.load(CHART) as chart:
        pages = chart.render({"image": {"repository": "r/o"}, **values}, name="x", namespace="ops")
    rights = set()
    for role in (o for page in pages.values() for o in objects(page)):
        if role["kind"] in {"Role", "ClusterRole"} and not role["metadata"]["name"].endswith(
            ("-view", "-edit")
        ):
            rights |= {
                (group, resource, verb)
                for rule in role["rules"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            }
    return rights


def objects(page):
    found = yaml.safe_load_all(page) if page.lstrip().startswith(("api", "---")) else []
    return [o for o in found if isinstance(o, dict) and "kind" in o]


def right(api, call):
    """The right that a call needs; None for discovery, which everybody may read."""
    if api._discovery(call.path) is not None:
        return None
    route = api._route(call.path)
    if route is None:
        return None
    if call.method == "GET" and route.name is None:
        verb = "watch" if call.query.get("watch") == "true" else "list"
    else:
        verb = {"GET": "get", "POST": "create"}.get(call.method, call.method.lower())
    resource = "/".join(filter(None, (route.resource[2], route.subresource)))
    return route.resource[0], resource, verb


async def a_full_life(world, **settings):
    """It starts, grows, shrinks, meets an HPA and ends; the rights that this took."""
    await world.workloads.deployment("demo", "chat", 1)
    for pod in world.workloads.fakes_of("demo", "chat"):
        pod.usage, pod.waiting = 0.99, 20
    await world.scaler(**FAST)
    await world.start(pod_namespace="ops", service_account="op", **settings)
    await world.until(lambda: world.replicas() > 1)
    for pod in world.fleet.pods.values():
        pod.usage, pod.waiting, pod.running = 0.0, 0, 0
    await world.until(lambda: world.replicas() == 1, 20)
    await world.api.put(
        ("autoscaling", "v2", "horizontalpodautoscalers"),
        {
            "metadata": {"namespace": "demo", "name": "other"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
            },
        },
    )
    await world.until(lambda: world.condition("Conflicted").get("status") == "True")
    await world.end()
    return {r for call in world.api.calls if (r := right(world.api, call))}


async def test_in_all_namespaces_the_roles_allow_what_it_does_and_nothing_else(world):
    world.api.kinds["keda.sh", "v1alpha1", "scaledobjects"] = ("ScaledObject", True, ())
    used, allowed = await a_full_life(world), roles()
    assert used - allowed == set()
    assert allowed - used == OTHER_TARGETS


async def test_in_named_namespaces_only_the_look_at_the_crd_is_refused(world):
    used = await a_full_life(world, namespaces=("demo",))
    crd = ("apiextensions.k8s.io", "customresourcedefinitions", "get")
    assert used - roles(watch={"namespaces": ["demo"]}) == {crd}


async def test_it_works_in_named_namespaces_where_that_look_is_refused(world):
    world.api.faults.append(
        Fault(lambda _, path: "customresourcedefinitions" in path, 403, "Forbidden")
    )
    await a_full_life(world, namespaces=("demo",))
    assert world.condition("Conflicted")["status"] == "True"


@pytest.mark.parametrize("word", ["secrets", "*"])
def test_the_roles_of_a_plain_installation_hold_no_such_word(word):
    assert all(word not in right for right in roles())


def test_the_lease_is_the_one_that_the_role_names():
    with Chart.load(CHART) as chart:
        pages = chart.render({"image": {"repository": "r/o"}}, name="x", namespace="ops")
    text = next(page for name, page in pages.items() if name.endswith("role-lease.yaml"))
    assert f"[{names.LEASE}]" in text
