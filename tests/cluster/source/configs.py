"""The components' configuration files, as text."""

import json
from pathlib import Path

from tests.cluster.source.network import BRIDGE
from tests.cluster.source.plan import Plan

PAUSE_IMAGE = "docker.io/cacheaware/pause:1"


def write(plan: Plan) -> None:
    """Writes every file where the components' arguments look for it."""
    files = {
        "containerd.toml": containerd(plan, _cni_binaries()),
        "cni/10-bridge.conflist": pod_network(plan),
        "kubelet.yaml": kubelet(plan),
        "Corefile": name_server(plan),
    }
    for name, text in files.items():
        path = plan.state / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def containerd(plan: Plan, cni_binaries: Path) -> str:
    """containerd 1.6 and later; the pods' network namespaces lie in the cluster's folder too."""
    return f"""\
version = 2
root = "{plan.state}/data/containerd"
state = "{plan.state}/data/containerd-run"
[grpc]
  address = "{plan.containerd_socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{plan.state}/data/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_binaries}"
    conf_dir = "{plan.state}/cni"
"""


def pod_network(plan: Plan) -> str:
    """The CNI chain: a bridge whose address is the node's, addresses by file, host ports."""
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": f"{plan.state}/data/cni",
            "ranges": [[{"subnet": plan.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": plan.name, "plugins": [bridge, ports]})


def kubelet(plan: Plan) -> str:
    """Its webhooks are off (one node, one administrator); cgroup version 1 is allowed."""
    return f"""\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
containerRuntimeEndpoint: unix://{plan.containerd_socket}
cgroupDriver: cgroupfs
cgroupRoot: /{plan.name}
clusterDNS: ["{plan.node_address}"]
clusterDomain: cluster.local
failSwapOn: false
failCgroupV1: false
evictionHard: {{nodefs.available: "1%", imagefs.available: "1%", memory.available: "100Mi"}}
imageGCHighThresholdPercent: 100
localStorageCapacityIsolation: false
podLogsDir: {plan.state}/log/pods
volumePluginDir: {plan.state}/data/volume-plugins
"""


def name_server(plan: Plan) -> str:
    """CoreDNS: the cluster's own names; every other name doesn't exist.

    Two servers, because in one the template would answer before the cluster.
    """
    return f"""\
cluster.local:53 in-addr.arpa:53 {{
    bind {plan.node_address}
    errors
    ready {plan.node_address}:8181
    kubernetes {{
        kubeconfig {plan.state}/dns.kubeconfig cacheaware
        pods insecure
        ttl 5
    }}
}}
.:53 {{
    bind {plan.node_address}
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def _cni_binaries() -> Path:
    """Debian's folder, else the upstream one."""
    debian = Path("/usr/lib/cni")
    return debian if debian.is_dir() else Path("/opt/cni/bin")
