"""The operator may do what it needs and nothing else: each rule with its reason."""

import json

import pytest

from cacheaware.names import GROUP, LEASE, PLURAL

READ = {"get", "list", "watch"}
FOLLOW = {"list", "watch"}
SCALE = {"get", "patch"}

SERVED = {
    # (group, resource): (verbs, reason)
    (GROUP, PLURAL): (
        READ | {"patch"},
        "read the settings; read the status again before it is written; claim a scaler",
    ),
    (GROUP, f"{PLURAL}/status"): ({"patch"}, "say what was decided"),
    ("", "pods"): (FOLLOW | {"patch"}, "find the engines; write a deletion cost before shrinking"),
    ("policy", "poddisruptionbudgets"): ({"list"}, "a cordon never takes the last disruption"),
    ("apps", "deployments"): ({"get"}, "see a rollout, GPUs, and who wrote the replicas"),
    ("apps", "statefulsets"): ({"get"}, "the same"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets"): ({"get"}, "the same, but for a rollout"),
    ("apps", "deployments/scale"): (SCALE, "scale, and find the pods' selector"),
    ("apps", "statefulsets/scale"): (SCALE, "scale, and find the pods' selector"),
    ("apps", "replicasets/scale"): (SCALE, "scale, and find the pods' selector"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets/scale"): (SCALE, "the same for groups of pods"),
    ("autoscaling", "horizontalpodautoscalers"): (FOLLOW, "one owner of replicas"),
    ("keda.sh", "scaledobjects"): (FOLLOW, "one owner of replicas"),
    ("", "events"): ({"create", "patch"}, "tell about changes, and count repeated ones"),
}
CLUSTER = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): (
        READ,
        "notice a schema that was not upgraded; kopf follows kinds that come and go",
    ),
}
OTHERS_LEASE = {
    # whether the installation that owns a scaler still runs
    "apiGroups": ["coordination.k8s.io"],
    "resources": ["leases"],
    "resourceNames": [LEASE],
    "verbs": ["get"],
}
NAMESPACES = {"watch": {"namespaces": ["models", "more-models"]}}


def granted(rules):
    """{(group, resource): verbs} of the rules that name no single object."""
    table = {}
    for rule in (rule for rule in rules if rule != OTHERS_LEASE):
        assert set(rule) == {"apiGroups", "resources", "verbs"}, rule
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                table.setdefault((group, resource), set()).update(rule["verbs"])
    return table


def needed(*tables):
    return {key: verbs for table in tables for key, (verbs, _) in table.items()}


def named(found, name, namespace=None):
    return next(
        o
        for o in found
        if (o["metadata"]["name"], o["metadata"].get("namespace")) == (name, namespace)
    )


def test_in_all_namespaces_it_may_do_exactly_what_it_needs(objects):
    role = named(objects(kind="ClusterRole"), "demo-cacheaware")
    assert granted(role["rules"]) == needed(SERVED, CLUSTER)
    assert role["rules"].count(OTHERS_LEASE) == 1


def test_in_named_namespaces_it_may_do_exactly_what_it_needs_there(objects):
    roles = objects(NAMESPACES, "Role")
    for namespace in ("models", "more-models"):
        role = named(roles, "demo-cacheaware", namespace)
        assert granted(role["rules"]) == needed(SERVED)
        assert OTHERS_LEASE not in role["rules"]


def test_in_named_namespaces_nothing_of_the_cluster_is_asked_for(objects):
    kinds = {o["kind"] for o in objects(NAMESPACES)}
    assert not {"ClusterRole", "ClusterRoleBinding"} & kinds


@pytest.mark.parametrize("values", [{}, NAMESPACES], ids=["all namespaces", "named namespaces"])
def test_no_rule_has_a_star_and_none_reads_secrets(objects, values):
    rules = [
        r for kind in ("Role", "ClusterRole") for o in objects(values, kind) for r in o["rules"]
    ]
    assert len(rules) > 10
    words = {w for rule in rules for part in rule.values() for w in part}
    assert (
        not {"*", "secrets", "pods/proxy", "pods/exec", "escalate", "bind", "impersonate"} & words
    )


def test_the_lease_is_one_object_in_the_own_namespace(objects):
    role = named(objects(kind="Role"), "demo-cacheaware-lease", "cacheaware")
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    assert role["rules"] == [
        {**lease, "verbs": ["create"]},
        {**lease, "resourceNames": [LEASE], "verbs": ["get", "patch"]},
        # proves to a sidecar who calls it; of this account alone
        {
            "apiGroups": [""],
            "resources": ["serviceaccounts/token"],
            "resourceNames": ["demo-cacheaware"],
            "verbs": ["create"],
        },
    ]


def test_only_named_secrets_can_be_read_and_only_got(objects):
    secrets = [
        {"namespace": "models", "name": "key-a"},
        {"namespace": "models", "name": "key-b"},
        {"namespace": "other", "name": "key-a"},
    ]
    found = [
        r
        for r in objects({"rbac": {"engineSecrets": secrets}}, "Role")
        if "secrets" in r["metadata"]["name"]
    ]
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    assert {r["metadata"]["namespace"]: r["rules"] for r in found} == {
        "models": [{**rule, "resourceNames": ["key-a", "key-b"]}],
        "other": [{**rule, "resourceNames": ["key-a"]}],
    }


def test_more_scale_targets_get_the_same_verbs_on_their_scale_alone(objects):
    targets = [{"apiGroup": "serving.example.com", "resource": "modelservers"}]
    role = named(
        objects({"rbac": {"extraScaleTargets": targets}}, "ClusterRole"), "demo-cacheaware"
    )
    extra = {("serving.example.com", "modelservers/scale"): SCALE}
    assert granted(role["rules"]) == needed(SERVED, CLUSTER) | extra


@pytest.mark.parametrize("values", [{}, NAMESPACES], ids=["all namespaces", "named namespaces"])
def test_every_role_of_the_operator_is_bound_to_its_account(objects, values):
    values = {**values, "rbac": {"engineSecrets": [{"namespace": "models", "name": "k"}]}}
    found = objects(values)
    place = [(o["kind"], o["metadata"]["name"], o["metadata"].get("namespace")) for o in found]
    bound = []
    for item in found:
        if item["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            assert item["subjects"] == [
                {"kind": "ServiceAccount", "name": "demo-cacheaware", "namespace": "cacheaware"}
            ]
            ref = item["roleRef"]
            bound.append((ref["kind"], ref["name"], item["metadata"].get("namespace")))
    ours = [
        p
        for p in place
        if p[0] in ("Role", "ClusterRole") and not p[1].endswith(("-view", "-edit"))
    ]
    assert sorted(bound, key=str) == sorted(ours, key=str)


def test_people_get_access_through_the_clusters_own_roles(objects):
    roles = objects(kind="ClusterRole")
    view, edit = named(roles, "demo-cacheaware-view"), named(roles, "demo-cacheaware-edit")
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    aggregated = [
        {k.removeprefix(prefix) for k in r["metadata"]["labels"] if prefix in k}
        for r in (view, edit)
    ]
    assert aggregated == [{"view", "edit", "admin"}, {"edit", "admin"}]
    assert granted(view["rules"]) == {(GROUP, PLURAL): READ, (GROUP, f"{PLURAL}/status"): READ}
    assert granted(edit["rules"]) == {
        (GROUP, PLURAL): {"create", "update", "patch", "delete", "deletecollection"}
    }


@pytest.mark.parametrize("key", ["create", "aggregateRoles"])
def test_roles_can_be_left_to_others(objects, key):
    roles = {o["metadata"]["name"] for o in objects({"rbac": {key: False}}, "ClusterRole")}
    assert roles == (set() if key == "create" else {"demo-cacheaware"})


def scopes_of(objects, values=None):
    (pod,) = objects(values, "Pod")
    (env,) = pod["spec"]["containers"][0]["env"]
    return json.loads(env["value"])


def test_helm_test_asks_for_each_rule_in_all_namespaces(objects):
    lease, served = scopes_of(objects)
    assert lease["namespace"] == "cacheaware"
    assert (
        lease["rules"]
        == named(objects(kind="Role"), "demo-cacheaware-lease", "cacheaware")["rules"]
    )
    assert served["namespace"] == ""
    assert granted(served["rules"]) == needed(SERVED, CLUSTER)


def test_helm_test_asks_for_each_rule_and_secret_in_named_namespaces(objects):
    secrets = [{"namespace": "models", "name": "key"}]
    _, first, second, secret = scopes_of(
        objects, {**NAMESPACES, "rbac": {"engineSecrets": secrets}}
    )
    assert [first["namespace"], second["namespace"]] == ["models", "more-models"]
    assert granted(first["rules"]) == granted(second["rules"]) == needed(SERVED)
    assert secret == {
        "namespace": "models",
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["secrets"],
                "resourceNames": ["key"],
                "verbs": ["get"],
            }
        ],
    }


def test_helm_test_asks_too_when_somebody_else_made_the_roles(objects):
    assert granted(scopes_of(objects, {"rbac": {"create": False}})[1]["rules"]) == needed(
        SERVED, CLUSTER
    )


def test_helm_test_runs_as_the_operators_account_in_its_image_and_leaves_nothing(objects):
    (pod,), (deployment,) = objects(kind="Pod"), objects(kind="Deployment")
    operator = deployment["spec"]["template"]["spec"]
    assert pod["spec"]["serviceAccountName"] == operator["serviceAccountName"]
    assert pod["spec"]["containers"][0]["image"] == operator["containers"][0]["image"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert "hook-succeeded" in pod["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
    assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "test"


def test_kubernetes_has_no_variable_to_expand_in_the_program_of_helm_test(objects, chart_path):
    (pod,) = objects(kind="Pod")
    (program,) = pod["spec"]["containers"][0]["args"]
    assert program == (chart_path / "files" / "access.py").read_text()
    assert "$(" not in program
