"""What the chart renders is what Kubernetes accepts, labelled and hardened."""

import kubernetes_validate
import pytest
import yaml
from helm_python import lint

from cacheaware.names import LEASE, SIDECAR_PORT

OLDEST, MIDDLE, NEWEST = "1.29.0", "1.35.0", "1.37.0"
FOREIGN = {"PodMonitor", "ServiceMonitor"}
HELM_LABELS = {
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/component",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
}
CLUSTER_SCOPED = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}


def pod_specs(objects):
    """(name, pod spec) of everything that runs a pod."""
    for item in objects:
        if item["kind"] == "Deployment":
            yield item["metadata"]["name"], item["spec"]["template"]["spec"]
        if item["kind"] == "Pod":
            yield item["metadata"]["name"], item["spec"]


def env_of(objects, values=None):
    (deployment,) = objects(values, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {
        e["name"]: e.get("value") or e["valueFrom"]
        for e in container["env"]
        if e.get("value") != ""
    }


def test_lint_has_nothing_to_say(ci_values, chart_path):
    report = lint(chart_path, ci_values, strict=True)
    assert report["messages"] == []
    assert report["errors"] == []


@pytest.mark.parametrize("version", [OLDEST, MIDDLE, NEWEST])
def test_every_object_is_valid_for_kubernetes(ci_values, objects, version):
    known = [o for o in objects(ci_values) if o["kind"] not in FOREIGN]
    assert len(known) >= 3
    for item in known:
        kubernetes_validate.validate(item, version, strict=True)


def test_the_validation_would_notice_a_typo(objects):
    (deployment,) = objects(kind="Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, NEWEST, strict=True)


def test_every_object_carries_the_labels_of_helm_and_our_name(ci_values, objects):
    for item in objects(ci_values):
        labels = item["metadata"]["labels"]
        assert set(labels) >= HELM_LABELS, item["kind"]
        assert labels["app.kubernetes.io/instance"] == "demo"
        assert labels["app.kubernetes.io/part-of"] == "cacheaware"


def test_every_namespaced_object_names_its_namespace(ci_values, objects):
    for item in objects(ci_values):
        assert ("namespace" in item["metadata"]) == (item["kind"] not in CLUSTER_SCOPED), item


def test_names_are_unique_within_a_kind_and_namespace(ci_values, objects):
    keys = [
        (o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"])
        for o in objects(ci_values)
    ]
    assert len(keys) == len(set(keys))


def test_every_pod_is_hardened(ci_values, objects):
    specs = list(pod_specs(objects(ci_values)))
    assert [name for name, _ in specs] == ["demo-cacheaware", "demo-cacheaware-test-access"]
    for _, spec in specs:
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 65532
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is True
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "privileged": False,
                "readOnlyRootFilesystem": True,
                "runAsNonRoot": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"]
            assert container["resources"]["limits"]["memory"]


def test_only_the_temporary_directory_can_be_written(objects):
    (deployment,) = objects(kind="Deployment")
    spec = deployment["spec"]["template"]["spec"]
    assert spec["volumes"] == [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]


def test_the_service_account_mounts_its_token_only_where_a_pod_says_so(objects):
    (account,) = objects(kind="ServiceAccount")
    assert account["automountServiceAccountToken"] is False


def test_there_is_one_writer_at_a_time(objects):
    (deployment,) = objects(kind="Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 15


def test_the_selector_never_changes_because_kubernetes_would_refuse_the_upgrade(objects, ci_values):
    (deployment,) = objects(ci_values, "Deployment")
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector == {
        "app.kubernetes.io/name": "cacheaware",
        "app.kubernetes.io/instance": "demo",
        "app.kubernetes.io/component": "operator",
    }
    assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_the_operator_gets_its_settings(objects):
    values = {
        "watch": {"namespaces": ["a", "b"]},
        "settings": {
            "roundSeconds": 2.5,
            "nodeSeconds": 1800,
            "scrapeConcurrency": 7,
            "port": 9000,
            "logFormat": "text",
            "logLevel": "debug",
        },
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
    }
    assert env_of(objects, values) == {
        "CACHEAWARE_POD_NAME": {"fieldRef": {"fieldPath": "metadata.name"}},
        "CACHEAWARE_POD_NAMESPACE": {"fieldRef": {"fieldPath": "metadata.namespace"}},
        "CACHEAWARE_SERVICE_ACCOUNT": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}},
        "CACHEAWARE_NAMESPACES": "a,b",
        "CACHEAWARE_ROUND_SECONDS": "2.5",
        "CACHEAWARE_NODE_SECONDS": "1800",
        "CACHEAWARE_SCRAPE_CONCURRENCY": "7",
        "CACHEAWARE_PORT": "9000",
        "CACHEAWARE_LOG_FORMAT": "text",
        "CACHEAWARE_LOG_LEVEL": "debug",
        "TZ": "UTC",
    }


def test_the_image_starts_the_operator_by_itself(objects):
    (deployment,) = objects(kind="Deployment")
    assert not {"command", "args"} & set(deployment["spec"]["template"]["spec"]["containers"][0])


def test_services_in_the_namespace_can_not_spoil_the_settings(ci_values, objects):
    assert all(spec["enableServiceLinks"] is False for _, spec in pod_specs(objects(ci_values)))
    assert all(s["metadata"]["name"] != "cacheaware" for s in objects(ci_values, "Service"))


def test_probes_ask_the_operators_own_pages(objects):
    (deployment,) = objects(kind="Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["startupProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert container["ports"] == [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({"repository": "r/o"}, "r/o:0.1.0"),
        ({"repository": "r/o", "tag": "dev"}, "r/o:dev"),
        ({"repository": "r/o", "digest": f"sha256:{'a' * 64}"}, f"r/o:0.1.0@sha256:{'a' * 64}"),
    ],
    ids=["the tag is the app version", "a tag of one's own", "by digest"],
)
def test_the_image_is_named(objects, image, expected):
    images = {
        c["image"] for _, spec in pod_specs(objects({"image": image})) for c in spec["containers"]
    }
    assert images == {expected}


def test_our_own_labels_win_over_common_ones_and_pod_labels_over_both_of_the_users(objects):
    values = {
        "commonLabels": {"team": "a", "app.kubernetes.io/name": "stolen"},
        "podLabels": {"team": "b", "app.kubernetes.io/instance": "stolen"},
    }
    (deployment,) = objects(values, "Deployment")
    outer, inner = (
        deployment["metadata"]["labels"],
        deployment["spec"]["template"]["metadata"]["labels"],
    )
    assert (outer["team"], inner["team"]) == ("a", "b")
    assert inner["app.kubernetes.io/name"] == "cacheaware"
    assert inner["app.kubernetes.io/instance"] == "demo"


@pytest.mark.parametrize("key", ["podMonitor", "serviceMonitor"])
def test_a_monitor_without_its_kind_in_the_cluster_is_refused_with_the_way_out(chart, key):
    from helm_python import HelmRenderError

    values = {"image": {"repository": "r/o"}, key: {"enabled": True}}
    with pytest.raises(
        HelmRenderError, match=rf"{key}\.enabled.*monitoring\.coreos\.com/v1.*{key}\.crdCheck"
    ):
        chart.render(values, name="demo", namespace="cacheaware")


def test_monitors_find_the_metrics(objects):
    monitor = {"enabled": True, "crdCheck": False, "labels": {"release": "prometheus"}}
    found = {o["kind"]: o for o in objects({"podMonitor": monitor, "serviceMonitor": monitor})}
    selector = {"matchLabels": found["Deployment"]["spec"]["selector"]["matchLabels"]}
    endpoint = {"port": "http", "path": "/metrics", "interval": "30s"}
    assert found["PodMonitor"]["spec"] == {"selector": selector, "podMetricsEndpoints": [endpoint]}
    assert found["ServiceMonitor"]["spec"] == {"selector": selector, "endpoints": [endpoint]}
    assert found["PodMonitor"]["metadata"]["labels"]["release"] == "prometheus"
    service_labels = found["Service"]["metadata"]["labels"]
    assert selector["matchLabels"].items() <= service_labels.items()
    assert found["Service"]["spec"]["ports"][0]["name"] == "http"


def test_monitors_service_and_network_policy_are_off_by_default(objects):
    assert not {"PodMonitor", "ServiceMonitor", "Service", "NetworkPolicy"} & {
        o["kind"] for o in objects()
    }


def egress(objects, **policy):
    watch = {"namespaces": policy.pop("namespaces", [])}
    (found,) = objects(
        {"networkPolicy": {"enabled": True, **policy}, "watch": watch}, "NetworkPolicy"
    )
    assert found["spec"]["policyTypes"] == ["Ingress", "Egress"]
    return found["spec"]["egress"]


def test_the_network_policy_lets_through_dns_the_api_server_and_the_pods(objects):
    dns, api, pods = egress(objects)
    assert dns == {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}
    assert api == {"ports": [{"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]}
    assert pods["to"] == [{"namespaceSelector": {}}]
    assert {"port": SIDECAR_PORT, "protocol": "TCP"} in pods["ports"]
    assert {"port": 8000, "protocol": "TCP"} in pods["ports"]


def test_the_network_policy_narrows_to_addresses_and_namespaces(objects):
    _, api, pods, more = egress(
        objects,
        namespaces=["models"],
        apiServerCIDRs=["192.0.2.1/32"],
        extraEgress=[{"ports": [{"port": 1234}]}],
    )
    assert api["to"] == [{"ipBlock": {"cidr": "192.0.2.1/32"}}]
    assert pods["to"][0]["namespaceSelector"]["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["models"]}
    ]
    assert more == {"ports": [{"port": 1234}]}


def notes(chart, values=None):
    pages = chart.render(
        {"image": {"repository": "r/o"}, **(values or {})}, name="demo", namespace="ops"
    )
    return next(page for name, page in pages.items() if name.endswith("NOTES.txt"))


def test_the_notes_name_the_next_commands(chart):
    text = notes(chart)
    for command in (
        "helm test demo --namespace ops",
        "kubectl get cas --namespace default",
        "cacheaware explain my-model --namespace default",
        "helm uninstall demo --namespace ops",
        "kubectl delete crd cacheawarescalers.cacheaware.dev",
    ):
        assert f"    {command}\n" in text


def test_the_object_in_the_notes_is_valid_as_it_stands(chart):
    text = notes(chart, {"watch": {"namespaces": ["models"]}})
    assert "kubectl get cas --namespace models" in text
    sample = yaml.safe_load(text.split("<<EOF\n")[1].split("    EOF")[0])
    assert sample["kind"] == "CacheAwareScaler"
    assert sample["spec"]["mode"] == "Advise"


@pytest.mark.parametrize(
    ("crds", "says"),
    [
        ({"install": True, "keep": True}, "stay. To remove them too"),
        ({"install": True, "keep": False}, "goes too, and with it every CacheAwareScaler"),
    ],
    ids=["kept", "not kept"],
)
def test_the_notes_say_what_an_uninstall_takes_along(chart, crds, says):
    assert says in notes(chart, {"crds": crds})


def test_the_lease_belongs_to_the_release_so_that_an_uninstall_takes_it_away(objects):
    (lease,) = objects(kind="Lease")
    assert lease["metadata"]["name"] == LEASE
    assert "spec" not in lease, "an upgrade would write over what the operator put there"
