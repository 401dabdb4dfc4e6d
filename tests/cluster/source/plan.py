"""Where one source-built cluster lives: its folder, its network namespace, its addresses.

Every cluster of a machine has a slot, a small number, and everything that could collide carries
it. The addresses are of 198.18.0.0/15, which is set aside for tests (RFC 2544): no real network is
hidden by them.
"""

from dataclasses import dataclass
from pathlib import Path

STATE_ROOT = Path("/var/lib/cacheaware-cluster")
SLOTS = 8
NODE = "node1"
API_PORT = 6443


@dataclass(frozen=True)
class Plan:
    """The names, paths and addresses of the cluster in one slot."""

    slot: int
    root: Path = STATE_ROOT

    @property
    def state(self) -> Path:
        """All files of the cluster; removed with it."""
        return self.root / str(self.slot)

    @property
    def name(self) -> str:
        """Of the network namespace, the cgroup and the pod network."""
        return f"cacheaware-{self.slot}"

    @property
    def namespace(self) -> Path:
        """The network namespace in which everything runs."""
        return Path("/run/netns") / self.name

    @property
    def host_link(self) -> str:
        """The machine's end of the cable into the namespace."""
        return f"cacheaware{self.slot}"

    @property
    def host_address(self) -> str:
        """The machine, as the cluster sees it."""
        return f"198.18.{self.slot}.1"

    @property
    def uplink_address(self) -> str:
        """The cluster's end of the cable."""
        return f"198.18.{self.slot}.2"

    @property
    def pods(self) -> str:
        """The network of the pods, a /24."""
        return f"198.18.{128 + self.slot}.0/24"

    @property
    def node_address(self) -> str:
        """The bridge's own address: the node, the API server and the name server.

        A node may not have a loopback address, and this one is reachable from the machine, the
        pods and the node alike.
        """
        return f"198.18.{128 + self.slot}.1"

    @property
    def services(self) -> str:
        """The network of the Services, a /24."""
        return f"198.19.{self.slot}.0/24"

    @property
    def api_service(self) -> str:
        """The address of the Service `kubernetes`: the first of the range."""
        return f"198.19.{self.slot}.1"

    @property
    def api_url(self) -> str:
        """The API server, for the machine and for the node."""
        return f"https://{self.node_address}:{API_PORT}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.state / "admin.kubeconfig"

    @property
    def containerd_socket(self) -> Path:
        """Where `ctr` and the kubelet find containerd."""
        return self.state / "containerd.sock"
