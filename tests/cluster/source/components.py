"""The components as data: what runs, with which arguments, in which order."""

from dataclasses import dataclass

from tests.cluster.source.plan import API_PORT, NODE, Plan

ETCD = "http://127.0.0.1:2379"
"""Inside the namespace: only the API server reaches it."""


@dataclass(frozen=True)
class Component:
    """One program of the control plane or the node.

    Attributes:
        name: of its record and log, and of its file in the cluster's `bin` unless on PATH.
        arguments: its command line.
        built: whether it is one of ours, in the cluster's `bin`, or the distribution's.
    """

    name: str
    arguments: tuple[str, ...]
    built: bool = True


def first(plan: Plan) -> tuple[Component, ...]:
    """What the others stand on: the runtime, the store and the API server."""
    state = plan.state
    return (
        Component("containerd", ("--config", f"{state}/containerd.toml"), built=False),
        Component("etcd", _etcd(plan)),
        Component("kube-apiserver", _api_server(plan)),
    )


def second(plan: Plan) -> tuple[Component, ...]:
    """What calls the API server."""
    state = plan.state
    return (
        Component(
            "kube-controller-manager",
            (
                *("--kubeconfig", f"{state}/controllers.kubeconfig", "--leader-elect=false"),
                *("--root-ca-file", f"{state}/pki/ca.crt", "--use-service-account-credentials"),
                *("--service-account-private-key-file", f"{state}/pki/sa.key"),
            ),
        ),
        Component(
            "kube-scheduler",
            ("--kubeconfig", f"{state}/scheduler.kubeconfig", "--leader-elect=false"),
        ),
        Component(
            "kubelet",
            (
                *("--config", f"{state}/kubelet.yaml"),
                *("--kubeconfig", f"{state}/kubelet.kubeconfig"),
                *("--hostname-override", NODE, "--node-ip", plan.node_address),
                *("--root-dir", f"{state}/data/kubelet"),
                *("--cert-dir", f"{state}/data/kubelet-pki"),
            ),
        ),
        Component(
            "kube-proxy",
            (
                *("--kubeconfig", f"{state}/proxy.kubeconfig", "--hostname-override", NODE),
                *("--proxy-mode", "iptables", "--cluster-cidr", plan.pods),
                # The limits of connection tracking are the machine's, not ours to set.
                *("--conntrack-max-per-core", "0", "--conntrack-min", "0"),
            ),
        ),
        Component("coredns", ("-conf", f"{state}/Corefile")),
    )


def _etcd(plan: Plan) -> tuple[str, ...]:
    peer = "http://127.0.0.1:2380"
    return (
        *("--data-dir", f"{plan.state}/data/etcd", "--unsafe-no-fsync"),
        *("--listen-client-urls", ETCD, "--advertise-client-urls", ETCD),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", f"default={peer}"),
    )


def _api_server(plan: Plan) -> tuple[str, ...]:
    pki = plan.state / "pki"
    return (
        *("--etcd-servers", ETCD, "--secure-port", str(API_PORT)),
        *("--tls-cert-file", f"{pki}/api.crt", "--tls-private-key-file", f"{pki}/api.key"),
        *("--advertise-address", plan.node_address, "--cert-dir", f"{plan.state}/data/api"),
        *("--service-cluster-ip-range", plan.services),
        *("--service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
        *("--service-account-key-file", f"{pki}/sa.pub"),
        *("--service-account-signing-key-file", f"{pki}/sa.key"),
        *("--token-auth-file", f"{plan.state}/tokens.csv"),
        *("--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction"),
        "--allow-privileged=true",
        # Else `kubectl logs` looks for a host of the node's name.
        *("--kubelet-preferred-address-types", "InternalIP"),
        *("--runtime-config", "admissionregistration.k8s.io/v1beta1=true"),
        *("--feature-gates", "MutatingAdmissionPolicy=true"),
    )
